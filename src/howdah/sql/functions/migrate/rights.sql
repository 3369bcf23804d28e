-- Owners, and the rights of PUBLIC and of the roles of this schema, in a short text that does not depend on the name of the schema.
-- Closed segments are left out, because they come and go.
CREATE OR REPLACE FUNCTION howdah.rights(p_relations text[], p_functions text[]) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH here AS (
        SELECT n.* FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace WHERE c.oid = 'howdah.live'::regclass
    ), part AS (
        SELECT 'schema' AS name, here.nspowner AS owner, here.nspacl AS acl FROM here
        UNION ALL
        SELECT c.relname, c.relowner, c.relacl
        FROM here JOIN pg_class AS c ON c.relnamespace = here.oid
        WHERE c.relname = ANY (p_relations)
        UNION ALL
        SELECT format('%s.%s', c.relname, a.attname), c.relowner, a.attacl
        FROM here JOIN pg_class AS c ON c.relnamespace = here.oid
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attacl IS NOT NULL
        WHERE c.relname = ANY (p_relations)
        UNION ALL
        SELECT format('%s(%s)', p.proname, replace(pg_get_function_identity_arguments(p.oid), here.nspname || '.', '')), p.proowner, coalesce(p.proacl, acldefault('f', p.proowner))
        FROM here JOIN pg_proc AS p ON p.pronamespace = here.oid
        WHERE p.proname = ANY (p_functions)
    ), fact AS (
        SELECT format('%s belongs to the owner: %s', part.name, part.owner = here.nspowner) AS line FROM part CROSS JOIN here
        UNION ALL
        SELECT format('%s to PUBLIC: %s', part.name, entry.privilege_type)
        FROM part CROSS JOIN LATERAL aclexplode(part.acl) AS entry WHERE entry.grantee = 0
        UNION ALL
        SELECT format('%s to %s: %s', part.name, right(r.rolname, -length(here.nspname)), entry.privilege_type)
        FROM part CROSS JOIN LATERAL aclexplode(part.acl) AS entry
        JOIN pg_roles AS r ON r.oid = entry.grantee
        JOIN here ON r.rolname IN (here.nspname || '_producer', here.nspname || '_worker', here.nspname || '_viewer', here.nspname || '_operator')
    )
    SELECT to_hex(hashtextextended(string_agg(fact.line, E'\n' ORDER BY fact.line COLLATE "C"), 0)) FROM fact
$$;
COMMENT ON FUNCTION howdah.rights IS
    'A digest of the owners and grants of these relations and functions. A migration uses it to detect changes by a restore or by hand. Internal.';
REVOKE ALL ON FUNCTION howdah.rights FROM PUBLIC;
