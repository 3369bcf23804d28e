WITH worker AS MATERIALIZED (
    SELECT w.meta FROM howdah.workers AS w WHERE w.heartbeat_at OPERATOR(pg_catalog.>=) (howdah.lease_clock() OPERATOR(pg_catalog.-) w.lease)
)
SELECT
    s.name, s.job_type, s.data, s.cron, s.every, s.timezone, s.missed, s.overlap, s.priority, s.max_attempts, s.timeout,
    s.retry_policy, CASE WHEN s.next_run_known THEN s.next_run_at END AS next_run_at, s.last_run_at, s.last_job_id, s.paused_at,
    s.created_at, s.declared_at, howdah.clock() AS now,
    s.declared_at IS NOT NULL AND EXISTS (SELECT FROM worker AS w) AND NOT EXISTS (
        SELECT FROM worker AS w WHERE pg_catalog.jsonb_exists(w.meta OPERATOR(pg_catalog.->) 'schedules', s.name)
    ) AS left_code,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.schedule_details AS s
WHERE %(name)s::pg_catalog.text IS NULL OR s.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text
ORDER BY s.name
