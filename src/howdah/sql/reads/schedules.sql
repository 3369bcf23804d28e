SELECT
    s.name, s.job_type, s.data, s.cron, s.every, s.timezone, s.missed, s.overlap, s.priority, s.max_attempts, s.timeout,
    s.retry_policy, CASE WHEN s.planned THEN s.next_run_at END AS next_run_at, s.last_run_at, s.last_job_id, s.paused_at,
    s.created_at, howdah.clock() AS now,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.schedule_details AS s
WHERE %(name)s::pg_catalog.text IS NULL OR s.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text
ORDER BY s.name
