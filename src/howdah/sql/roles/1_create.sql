-- The roles are groups: no login uses one of them directly. They are created once for the whole server, for all its databases.
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
                -- A migration of another database has created it at the same time.
                NULL;
            END;
        ELSIF EXISTS (
            SELECT FROM pg_catalog.pg_roles AS r
            WHERE r.oid = to_regrole(v_role) AND (r.rolcanlogin OR r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolbypassrls)
        ) THEN
            RAISE EXCEPTION 'role % already exists, and may log in, or has further privileges', v_role
                USING ERRCODE = 'JQ009', HINT = 'A group role of Howdah must have no privileges of its own: rename the role, or install elsewhere.';
        -- Members of a group that was created for another purpose would get access to this queue, and vice versa.
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
            RAISE EXCEPTION 'role % already exists, and has members or rights, or owns something', v_role
                USING ERRCODE = 'JQ009', HINT = format(
                    'Rename it, or install elsewhere: --schema NAME. If it was created for this queue, mark it: COMMENT ON ROLE %s IS %L', v_role, v_mark
                );
        END IF;
    END LOOP;
END
$$;
