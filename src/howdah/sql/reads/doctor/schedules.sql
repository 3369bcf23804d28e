WITH worker AS MATERIALIZED (
    SELECT w.job_types, w.meta FROM howdah.workers AS w WHERE w.heartbeat_at >= howdah.lease_clock() - w.lease
)
SELECT
    s.name::text, s.job_type::text, s.cron, s.every, s.timezone,
    CASE WHEN isfinite(s.next_run_at) THEN extract(epoch FROM howdah.clock() - s.next_run_at)::float8 END AS late,
    (SELECT count(*) FROM worker) AS living,
    EXISTS (SELECT FROM worker AS w WHERE w.job_types IS NULL OR s.job_type = ANY (w.job_types)) AS is_handled,
    extract(epoch FROM howdah.clock() - s.declared_at)::float8 AS declared,
    s.declared_at IS NOT NULL AND EXISTS (SELECT FROM worker AS w) AND NOT EXISTS (
        SELECT FROM worker AS w WHERE jsonb_exists(w.meta -> 'schedules', s.name)
    ) AS left_code,
    EXISTS (
        SELECT FROM howdah.job_details AS j
        WHERE j.id = s.last_job_id AND (j.status IN ('claimed', 'running', 'completed') OR j.attempts > 0)
    ) AS was_worked_on
FROM howdah.schedule_details AS s
WHERE s.paused_at IS NULL
ORDER BY s.name
