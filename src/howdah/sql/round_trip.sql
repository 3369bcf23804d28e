-- Recreates everything that PostgreSQL stores parsed from its own printed form, as a dump and its restore do. This changes the text (IN
-- becomes = ANY, once), but not the meaning.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '2s';
DO $$
DECLARE
    v_statement text;
BEGIN
    FOREACH v_statement IN ARRAY ARRAY(
        SELECT format(
            'ALTER TABLE %s DROP CONSTRAINT %I, ADD CONSTRAINT %I %s', k.conrelid::regclass, k.conname, k.conname, pg_get_constraintdef(k.oid)
        )
        FROM pg_constraint AS k
        WHERE k.connamespace = 'howdah'::regnamespace AND k.contype = 'c' AND k.conrelid <> 0 AND k.coninhcount = 0
        UNION ALL
        SELECT format('ALTER TABLE %s ALTER COLUMN %I SET DEFAULT %s', c.oid::regclass, a.attname, pg_get_expr(d.adbin, d.adrelid))
        FROM pg_attrdef AS d
        JOIN pg_class AS c ON c.oid = d.adrelid
        JOIN pg_attribute AS a ON a.attrelid = d.adrelid AND a.attnum = d.adnum
        WHERE c.relnamespace = 'howdah'::regnamespace
        UNION ALL
        SELECT format('DROP INDEX %s; %s', c.oid::regclass, pg_get_indexdef(c.oid))
        FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
        WHERE c.relnamespace = 'howdah'::regnamespace AND NOT i.indisprimary AND (i.indpred IS NOT NULL OR i.indexprs IS NOT NULL)
        UNION ALL
        SELECT format('CREATE OR REPLACE VIEW %s AS %s', c.oid::regclass, pg_get_viewdef(c.oid))
        FROM pg_class AS c WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind = 'v'
        UNION ALL
        SELECT format('DROP TRIGGER %I ON %s; %s', t.tgname, c.oid::regclass, pg_get_triggerdef(t.oid))
        FROM pg_trigger AS t JOIN pg_class AS c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'howdah'::regnamespace AND NOT t.tgisinternal
        UNION ALL
        SELECT pg_get_functiondef(p.oid) FROM pg_proc AS p
        WHERE p.pronamespace = 'howdah'::regnamespace AND pg_get_function_sqlbody(p.oid) IS NOT NULL
    ) LOOP
        EXECUTE v_statement;
    END LOOP;
END
$$;
