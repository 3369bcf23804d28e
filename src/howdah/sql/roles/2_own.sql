-- Everything in the schema belongs to the owner. Whoever it belonged to before becomes a member of the owner, and so does
-- whoever migrates: they go on as before.

-- A partition that is being made right now would be missed.
SELECT pg_advisory_xact_lock(hashtextextended('howdah.create_partitions', 0));

DO $$
DECLARE
    v_change text;
BEGIN
    FOR v_change IN
        SELECT format('GRANT %s TO %I', 'howdah_owner', r.rolname)
        FROM pg_catalog.pg_roles AS r
        WHERE NOT r.rolsuper AND r.oid <> to_regrole('howdah_owner') AND NOT pg_has_role(r.oid, to_regrole('howdah_owner'), 'USAGE')
            AND (
                r.rolname = current_user
                OR r.oid IN (SELECT n.nspowner FROM pg_catalog.pg_namespace AS n WHERE n.oid = 'howdah'::regnamespace)
                OR r.oid IN (SELECT c.relowner FROM pg_catalog.pg_class AS c WHERE c.relnamespace = 'howdah'::regnamespace)
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

    FOR v_change IN
        SELECT format('ALTER %s %s OWNER TO %s', CASE c.relkind WHEN 'c' THEN 'TYPE' ELSE 'TABLE' END, c.oid::regclass, 'howdah_owner')
        FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S', 'c')
            AND c.relowner <> to_regrole('howdah_owner')
            -- The sequence of a column goes with its table.
            AND NOT EXISTS (
                SELECT FROM pg_catalog.pg_depend AS d
                WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND c.relkind = 'S'
            )
        -- In the order in which workers lock them: first what every statement begins with.
        ORDER BY c.relname <> 'live', c.relname
    LOOP
        EXECUTE v_change;
    END LOOP;

    FOR v_change IN
        SELECT format('ALTER ROUTINE %s OWNER TO %s', p.oid::regprocedure, 'howdah_owner')
        FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = 'howdah'::regnamespace AND p.proowner <> to_regrole('howdah_owner')
    LOOP
        EXECUTE v_change;
    END LOOP;
END
$$;
