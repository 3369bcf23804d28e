-- What stands where Howdah is, or is to be, installed; and whether a plain table of jobs is in sight.
WITH plain AS (
    SELECT c.oid, c.relowner, n.nspname
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
    WHERE c.oid IN (to_regclass('howdah.jobs'), to_regclass('jobs')) AND c.relkind IN ('r', 'p')
        -- Howdah's own, here or in another schema, is not meant.
        AND NOT EXISTS (SELECT FROM pg_catalog.pg_class AS l WHERE l.relnamespace = n.oid AND l.relname = 'live')
    ORDER BY c.oid = to_regclass('howdah.jobs') DESC NULLS LAST
    LIMIT 1
)
SELECT
    to_regclass('howdah.schema_version') IS NOT NULL AS installed,
    -- Before 0.1.0, jobs was a view.
    to_regclass('howdah.live') IS NOT NULL AND to_regclass('howdah.segments') IS NULL AS is_development,
    EXISTS (
        SELECT FROM pg_catalog.pg_namespace AS n
        WHERE n.oid = to_regnamespace('howdah') AND n.nspowner = to_regrole('howdah_owner')
    ) AS has_roles,
    -- After a restore without data there is no row that says it.
    CASE WHEN to_regclass('howdah.schema_version') IS NOT NULL THEN
        coalesce(substring(col_description(to_regclass('howdah.schema_version'), 2) FROM 'version ([0-9]+)$')::int, 1)
    END AS marked_version,
    -- Bodies name their schema: after it was renamed, the old one.
    (
        SELECT substring(p.prosrc FROM '"([^"]+)"\.live') FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = to_regnamespace('howdah') AND p.proname = 'enqueue' ORDER BY p.oid LIMIT 1
    ) AS functions_name,
    -- A few stand for all: each function is PUBLIC's until that is revoked, and a restore may have lost that.
    EXISTS (
        SELECT FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace = to_regnamespace('howdah') AND p.proname IN ('declare_type', 'prune', 'settle')
            AND EXISTS (SELECT FROM aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a WHERE a.grantee = 0)
    ) AS is_public,
    (SELECT pg_has_role(c.relowner, 'MEMBER') FROM pg_catalog.pg_class AS c WHERE c.oid = to_regclass('howdah.schema_version')) AS may_mend,
    -- Who owns a schema can drop and replace what is in it. A superuser can do that anywhere.
    (
        SELECT n.nspowner::regrole::text FROM pg_catalog.pg_namespace AS n JOIN pg_catalog.pg_roles AS r ON r.oid = n.nspowner
        WHERE n.oid = to_regnamespace('howdah') AND NOT r.rolsuper AND NOT pg_has_role(n.nspowner, 'MEMBER')
    ) AS strange_owner,
    (SELECT nspname FROM plain) AS plain_jobs_in,
    (SELECT relowner::regrole::text FROM plain) AS plain_jobs_of,
    (SELECT pg_has_role(relowner, 'USAGE') FROM plain) AS may_adopt,
    quote_ident(current_user) AS login,
    -- Only types of PostgreSQL's own: a type of somebody else's would be converted by its own functions, with the rights of the login
    -- that migrates.
    (
        SELECT count(*) FROM plain
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid = plain.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE (a.attname = 'id' AND a.atttypid = 'uuid'::regtype)
            OR (a.attname IN ('job_type', 'status', 'current_stage', 'worker_id', 'last_error')
                AND a.atttypid IN ('varchar'::regtype, 'text'::regtype))
            OR (a.attname IN ('priority', 'progress', 'events_count', 'attempts', 'max_attempts')
                AND a.atttypid IN ('int2'::regtype, 'int4'::regtype, 'int8'::regtype))
            OR (a.attname = 'data' AND a.atttypid IN ('jsonb'::regtype, 'json'::regtype))
            OR (a.attname IN ('claimed_at', 'created_at', 'started_at', 'completed_at')
                AND a.atttypid IN ('timestamptz'::regtype, 'timestamp'::regtype))
    ) = 16 AS adoptable
