SELECT job_type, flow_key, group_name AS "group", each_key, max_running, weight, paused_at, paused_because, by_operator, running,
    rate_jobs, rate_seconds, rate_burst
FROM howdah.limits
ORDER BY job_type NULLS FIRST, "group", each_key, flow_key NULLS FIRST
