-- The roles are groups: nobody logs in as one of them. They are made once for the whole server, whatever its databases.
DO $$
DECLARE
    v_roles text[] := ARRAY['howdah_owner', 'howdah_producer', 'howdah_worker', 'howdah_viewer', 'howdah_operator'];
    v_role text;
BEGIN
    FOREACH v_role IN ARRAY v_roles LOOP
        IF to_regrole(v_role) IS NULL THEN
            BEGIN
                EXECUTE format('CREATE ROLE %s NOLOGIN', v_role);
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
        END IF;
    END LOOP;
END
$$;
