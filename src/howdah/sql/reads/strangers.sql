-- What has a name of ours, and belongs neither to the owner of the schema, nor to the login that has migrated, nor to a member of these: what
-- it does, it would do with the rights of others.
SELECT part.what, part.owner::regrole::text AS owner FROM (
    SELECT format('TABLE %%s', c.oid::regclass) AS what, c.relowner AS owner
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = to_regnamespace('howdah') AND c.relname = ANY (%(relations)s::text[])
    UNION ALL
    SELECT format('ROUTINE %%s', p.oid::regprocedure), p.proowner
    FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace = to_regnamespace('howdah') AND p.proname = ANY (%(functions)s::text[])
) AS part
JOIN pg_catalog.pg_namespace AS n ON n.oid = to_regnamespace('howdah')
JOIN pg_catalog.pg_class AS v ON v.oid = to_regclass('howdah.schema_version')
WHERE NOT pg_has_role(part.owner, n.nspowner, 'MEMBER') AND NOT pg_has_role(part.owner, v.relowner, 'MEMBER')
ORDER BY 1
