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
