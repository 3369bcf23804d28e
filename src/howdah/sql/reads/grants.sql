-- The rights of the roles and of PUBLIC here, and what belongs to a foreign role: to another role than the schema does, if it has
-- roles; otherwise to one that could not have created this schema.
WITH part AS (
    SELECT n.nspname AS name, n.nspowner AS owner, n.nspacl AS acl, 'schema' AS kind, n.nspowner
    FROM pg_catalog.pg_namespace AS n WHERE n.oid = %(schema)s::regnamespace
    UNION ALL
    SELECT c.relname, c.relowner, c.relacl, 'relation', n.nspowner
    FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.oid = %(schema)s::regnamespace AND (
        c.relname = ANY (%(relations)s::text[]) OR c.relkind = 'r' AND c.relname ~ '^(archive|events)_[0-9]+$'
    )
    UNION ALL
    SELECT format('%%s.%%s', c.relname, a.attname), c.relowner, a.attacl, 'column', n.nspowner
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    JOIN pg_catalog.pg_attribute AS a ON a.attrelid = c.oid AND a.attacl IS NOT NULL
    WHERE n.oid = %(schema)s::regnamespace AND c.relname = ANY (%(relations)s::text[])
    UNION ALL
    SELECT p.proname, p.proowner, coalesce(p.proacl, acldefault('f', p.proowner)), 'function', n.nspowner
    FROM pg_catalog.pg_proc AS p JOIN pg_catalog.pg_namespace AS n ON n.oid = p.pronamespace
    WHERE n.oid = %(schema)s::regnamespace AND p.proname = ANY (%(functions)s::text[])
)
SELECT
    'grant' AS kind,
    format(
        '%%s on %%s to %%s', entry.privilege_type, CASE part.kind WHEN 'schema' THEN 'the schema' ELSE part.name END,
        coalesce(r.rolname, 'PUBLIC')
    ) AS name,
    '' AS definition
FROM part
CROSS JOIN LATERAL aclexplode(part.acl) AS entry
LEFT JOIN pg_catalog.pg_roles AS r ON r.oid = entry.grantee
WHERE entry.grantee <> part.owner AND (entry.grantee = 0 OR r.rolname = ANY (%(roles)s::text[]))
UNION ALL
SELECT 'owner', part.name, CASE
    WHEN part.owner = part.nspowner THEN 'owner'
    -- In a schema that an administrator has created, the queue belongs to the login that has migrated.
    WHEN NOT %(strict)s::boolean AND part.owner = (
        SELECT c.relowner FROM pg_catalog.pg_class AS c
        WHERE c.relnamespace = %(schema)s::regnamespace AND c.relname = 'schema_version'
    ) THEN 'owner'
    WHEN NOT pg_has_role(part.owner, part.nspowner, 'MEMBER') THEN 'stranger'
    WHEN %(strict)s::boolean THEN 'member'
    ELSE 'owner'
END
FROM part WHERE part.kind IN ('relation', 'function')
-- Of several functions of one name, the one of a foreign owner comes last, and counts.
ORDER BY 1, 2, 3
