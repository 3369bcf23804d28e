-- What every login may call or read. PUBLIC may execute each new function until that is revoked.
SELECT part.kind, part.name FROM (
    SELECT 'function' AS kind, p.proname::text AS name, coalesce(p.proacl, acldefault('f', p.proowner)) AS acl
    FROM pg_proc AS p WHERE p.pronamespace = 'howdah'::regnamespace AND p.proname = ANY (%(functions)s::text[])
    UNION ALL
    SELECT 'relation', c.relname::text, c.relacl
    FROM pg_class AS c WHERE c.relnamespace = 'howdah'::regnamespace AND c.relname = ANY (%(relations)s::text[])
) AS part
WHERE EXISTS (SELECT FROM aclexplode(part.acl) AS a WHERE a.grantee = 0)
ORDER BY 1, 2
