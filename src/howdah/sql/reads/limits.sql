SELECT job_type, flow_key, group_name AS "group", each_key, max_running, weight, paused_at, paused_because, by_operator, running,
    rate_jobs, rate_seconds, rate_burst, NULL AS max_pending, NULL AS when_full, NULL AS pending
FROM howdah.limits
UNION ALL
SELECT job_type, NULL, NULL, false, NULL, NULL, NULL, NULL, by_operator, NULL, NULL, NULL, NULL, max_pending, when_full, pending
FROM howdah.backlogs
ORDER BY job_type NULLS FIRST, "group", each_key, flow_key NULLS FIRST
