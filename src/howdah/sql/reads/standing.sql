-- What stands where Howdah is, or is to be, installed; and whether a plain table of jobs is in sight.
SELECT
    to_regclass('howdah.schema_version') IS NOT NULL AS installed,
    EXISTS (
        SELECT FROM pg_catalog.pg_namespace AS n
        WHERE n.oid = to_regnamespace('howdah') AND n.nspowner = to_regrole('howdah_owner')
    ) AS has_roles,
    (
        SELECT n.nspname FROM pg_catalog.pg_class AS c
        JOIN pg_catalog.pg_namespace AS n ON n.oid = c.relnamespace
        WHERE c.oid IN (to_regclass('howdah.jobs'), to_regclass('jobs')) AND c.relkind IN ('r', 'p')
        ORDER BY c.oid = to_regclass('howdah.jobs') DESC NULLS LAST
        LIMIT 1
    ) AS plain_jobs_in,
    (
        SELECT count(*) FROM pg_catalog.pg_attribute AS a
        WHERE a.attrelid = coalesce(to_regclass('howdah.jobs'), to_regclass('jobs'))
            AND a.attnum > 0 AND NOT a.attisdropped AND a.attname IN (
                'id', 'job_type', 'priority', 'status', 'data', 'progress', 'current_stage', 'events_count', 'worker_id',
                'claimed_at', 'created_at', 'started_at', 'completed_at', 'attempts', 'max_attempts', 'last_error'
            )
    ) = 16 AS adoptable
