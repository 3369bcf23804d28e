-- Objects with a name of Howdah that belong neither to the owner of the schema, nor to the login that has migrated (or is about to),
-- nor to a member of these: their code would run with the rights of others.
SELECT part.what, part.owner::pg_catalog.regrole::pg_catalog.text AS owner FROM (
    SELECT pg_catalog.format('TABLE %%s', c.oid::pg_catalog.regclass) AS what, c.relowner AS owner
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
        AND c.relname OPERATOR(pg_catalog.=) ANY (%(relations)s::pg_catalog.text[])
    UNION ALL
    SELECT pg_catalog.format('ROUTINE %%s', p.oid::pg_catalog.regprocedure), p.proowner
    FROM pg_catalog.pg_proc AS p
    WHERE p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
        AND p.proname OPERATOR(pg_catalog.=) ANY (%(functions)s::pg_catalog.text[])
) AS part
JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
LEFT JOIN pg_catalog.pg_class AS v ON v.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('howdah.schema_version')
WHERE NOT pg_catalog.pg_has_role(part.owner, n.nspowner, 'MEMBER')
    AND NOT pg_catalog.pg_has_role(part.owner, coalesce(v.relowner, current_user::pg_catalog.regrole), 'MEMBER')
ORDER BY 1
