-- Redacted as live_jobs.
CREATE OR REPLACE VIEW howdah.schedule_details AS
SELECT
    name,
    job_type,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN data
        ELSE '"[redacted]"'
    END AS data,
    cron,
    every,
    timezone,
    missed,
    overlap,
    priority,
    max_attempts,
    timeout,
    retry_policy,
    next_run_at,
    next_run_known,
    last_run_at,
    last_job_id,
    paused_at,
    created_at,
    changed_at,
    declared_at
FROM howdah.schedules;
COMMENT ON VIEW howdah.schedule_details IS 'The table schedules, redacted for roles that may not read all of it.';
