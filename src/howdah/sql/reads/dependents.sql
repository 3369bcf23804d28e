-- What refers to a plain table of jobs that is about to be adopted, and has to be changed to the new one. PostgreSQL records no
-- dependency for a function with a body in quotes: there, the word jobs decides.
WITH old AS (
    SELECT format('%%I.jobs', %(schema)s::text)::regclass AS oid
)
SELECT d.kind, d.name FROM (
    SELECT DISTINCT CASE v.relkind WHEN 'm' THEN 'materialized view' ELSE 'view' END AS kind, v.oid::regclass::text AS name
    FROM old
    JOIN pg_catalog.pg_depend AS d ON d.refclassid = 'pg_class'::regclass AND d.refobjid = old.oid AND d.classid = 'pg_rewrite'::regclass
    JOIN pg_catalog.pg_rewrite AS w ON w.oid = d.objid
    JOIN pg_catalog.pg_class AS v ON v.oid = w.ev_class
    WHERE v.oid <> old.oid
    UNION ALL
    SELECT 'foreign key', format('%%s of %%s', k.conname, k.conrelid::regclass)
    FROM old JOIN pg_catalog.pg_constraint AS k ON k.confrelid = old.oid AND k.contype = 'f' AND k.conparentid = 0
    UNION ALL
    SELECT 'trigger', t.tgname::text FROM old JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = old.oid AND NOT t.tgisinternal
    UNION ALL
    SELECT 'rule', w.rulename::text FROM old JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = old.oid
    UNION ALL
    SELECT 'policy', p.polname::text FROM old JOIN pg_catalog.pg_policy AS p ON p.polrelid = old.oid
    UNION ALL
    SELECT 'child table', i.inhrelid::regclass::text FROM old JOIN pg_catalog.pg_inherits AS i ON i.inhparent = old.oid
    UNION ALL
    SELECT 'publication', p.pubname::text
    FROM old JOIN pg_catalog.pg_publication_rel AS r ON r.prrelid = old.oid JOIN pg_catalog.pg_publication AS p ON p.oid = r.prpubid
    UNION ALL
    SELECT 'function', p.oid::regprocedure::text
    FROM old
    CROSS JOIN pg_catalog.pg_proc AS p
    JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.nspname NOT IN ('pg_catalog', 'information_schema') AND p.prokind IN ('f', 'p')
        -- Not those of another queue of Howdah.
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS l WHERE l.relnamespace = n.oid AND l.relname = 'live')
        -- The migration replaces this one.
        AND NOT (n.nspname = %(schema)s::text AND p.proname = 'claim_job_batch')
        AND (
            p.prosrc ~ '\mjobs\M'
            OR EXISTS (
                SELECT FROM pg_catalog.pg_depend AS d
                WHERE d.classid = 'pg_proc'::regclass AND d.objid = p.oid AND d.refclassid = 'pg_class'::regclass AND d.refobjid = old.oid
            )
        )
) AS d
ORDER BY d.kind, d.name
