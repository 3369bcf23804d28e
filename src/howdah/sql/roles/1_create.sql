-- The roles are groups: nobody logs in as one of them. They are made once for the whole server, whatever its databases.
DO $$
DECLARE
    v_roles text[] := ARRAY['howdah_owner', 'howdah_producer', 'howdah_worker', 'howdah_viewer', 'howdah_operator'];
    v_mark text := 'A role of Howdah''s';
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY v_roles LOOP
        IF to_regrole(v_role) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %s NOLOGIN', v_role);
                EXECUTE format('COMMENT ON ROLE %s IS %L', v_role, v_mark);
            EXCEPTION WHEN duplicate_object OR unique_violation THEN
                -- By a migration of another database, at the same time.
                NULL;
            END;
        ELSIF EXISTS (
            SELECT FROM pg_catalog.pg_roles AS r
            WHERE r.oid = to_regrole(v_role) AND (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolbypassrls)
        ) THEN
            RAISE EXCEPTION 'there is a role % already, which may log in, or more than that', v_role
                USING ERRCODE = 'JQ009', HINT = 'What is to be a group must be able to do nothing by itself: rename it, or install elsewhere.';
        -- Whoever is in a group that somebody made for something else would get this queue with it, and the other way round.
        ELSIF shobj_description(to_regrole(v_role), 'pg_authid') IS DISTINCT FROM v_mark
            AND NOT EXISTS (
                SELECT FROM pg_catalog.pg_namespace AS n
                WHERE n.oid = to_regnamespace('howdah') AND n.nspowner = to_regrole('howdah_owner')
            )
            AND (
                EXISTS (SELECT FROM pg_catalog.pg_auth_members AS m WHERE to_regrole(v_role) IN (m.roleid, m.member))
                OR EXISTS (
                    SELECT FROM pg_catalog.pg_shdepend AS d
                    WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = to_regrole(v_role)
                )
            )
        THEN
            RAISE EXCEPTION 'there is a role % already, which has members, or rights, or owns something', v_role
                USING ERRCODE = 'JQ009', HINT = format(
                    'Rename it, or install elsewhere: --schema NAME. If it was made for this, say so: COMMENT ON ROLE %s IS %L', v_role, v_mark
                );
        END IF;
    END LOOP;
END
$$;
