-- All objects of Howdah in the schema get the owner role; objects of others keep theirs. The previous owner of the queue becomes a member
-- of the owner role, and so does the login that migrates: both work as before.

-- A rotation at the same time would open a segment that is missed here.
SELECT FROM howdah.segments WHERE closed_at IS NULL FOR UPDATE;

DO $$
DECLARE
    v_change text;
    v_what text;
    v_owner oid;
BEGIN
    FOR v_change IN
        SELECT format('GRANT %s TO %I', 'howdah_owner', r.rolname)
        FROM pg_catalog.pg_roles AS r
        WHERE NOT r.rolsuper AND r.oid <> to_regrole('howdah_owner') AND NOT pg_has_role(r.oid, to_regrole('howdah_owner'), 'USAGE')
            AND (
                r.rolname = current_user
                OR r.oid IN (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n WHERE n.oid = 'howdah'::regnamespace)
                OR r.oid IN (SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.oid = 'howdah.live'::regclass)
            )
    LOOP
        EXECUTE v_change;
    END LOOP;

    FOR v_change IN
        SELECT format('ALTER SCHEMA %I OWNER TO %s', n.nspname, 'howdah_owner')
        FROM pg_catalog.pg_namespace AS n
        WHERE n.oid = 'howdah'::regnamespace AND n.nspowner <> to_regrole('howdah_owner')
    LOOP
        EXECUTE v_change;
    END LOOP;

    FOR v_what, v_owner IN
        SELECT part.what, part.owner FROM (
            SELECT
                format('%s %s', CASE c.relkind WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END, c.oid::regclass) AS what, c.relowner AS owner,
                -- In the order in which workers lock them: first the table with which every statement begins.
                CASE c.relname WHEN 'live' THEN 1 ELSE 2 END AS place, c.relname AS name
            FROM pg_catalog.pg_class AS c
            WHERE c.relnamespace = 'howdah'::regnamespace AND (
                c.relkind IN ('r', 'p', 'v', 'S', 'c') AND c.relname = ANY (%(relations)s::text[])
                OR c.relkind = 'r' AND EXISTS (
                    SELECT FROM pg_catalog.pg_inherits AS i
                    WHERE i.inhrelid = c.oid AND i.inhparent IN ('howdah.archive'::regclass, 'howdah.events'::regclass)
                )
            )
            UNION ALL
            SELECT format('ROUTINE %s', p.oid::regprocedure), p.proowner, 3, p.proname
            FROM pg_catalog.pg_proc AS p
            WHERE p.pronamespace = 'howdah'::regnamespace AND p.proname = ANY (%(functions)s::text[])
        ) AS part
        WHERE part.owner <> to_regrole('howdah_owner')
        ORDER BY part.place, part.name
    LOOP
        -- A name of Howdah does not make it an object of Howdah: its code would run with the rights of the owner.
        IF NOT pg_has_role(v_owner, to_regrole('howdah_owner'), 'MEMBER') THEN
            RAISE EXCEPTION '% belongs to %, which is no owner of this queue', v_what, v_owner::regrole
                USING ERRCODE = 'JQ009', HINT = format('Drop it; or if it is Howdah''s, run ALTER %s OWNER TO CURRENT_USER first.', v_what);
        END IF;
        EXECUTE format('ALTER %s OWNER TO %s', v_what, 'howdah_owner');
    END LOOP;
END
$$;
