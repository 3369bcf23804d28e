WITH limited AS (
    SELECT
        o.job_type,
        pg_catalog.max(o.max_running) FILTER (WHERE o.flow_key IS NULL AND NOT o.each_key) AS max_running,
        pg_catalog.max(o.max_running) FILTER (WHERE o.each_key) AS key_limit,
        pg_catalog.count(o.paused_at) AS paused_keys
    FROM howdah.limits AS o
    GROUP BY o.job_type
)
SELECT
    coalesce(n.job_type, t.job_type) AS job_type,
    coalesce(pg_catalog.sum(n.jobs) FILTER (WHERE n.status OPERATOR(pg_catalog.=) 'pending'), 0)::bigint AS pending,
    coalesce(pg_catalog.sum(n.scheduled), 0)::bigint AS scheduled,
    coalesce(pg_catalog.sum(n.jobs) FILTER (WHERE n.status OPERATOR(pg_catalog.=) 'claimed'), 0)::bigint AS claimed,
    coalesce(pg_catalog.sum(n.jobs) FILTER (WHERE n.status OPERATOR(pg_catalog.=) 'running'), 0)::bigint AS running,
    coalesce(pg_catalog.sum(n.stalled), 0)::bigint AS stalled,
    coalesce(pg_catalog.sum(n.jobs) FILTER (WHERE n.status OPERATOR(pg_catalog.=) 'completed'), 0)::bigint AS completed,
    coalesce(pg_catalog.sum(n.jobs) FILTER (WHERE n.status OPERATOR(pg_catalog.=) 'failed'), 0)::bigint AS failed,
    coalesce(pg_catalog.sum(n.jobs) FILTER (WHERE n.status OPERATOR(pg_catalog.=) 'cancelled'), 0)::bigint AS cancelled,
    pg_catalog.min(n.oldest_due) AS oldest_due,
    pg_catalog.bool_or(t.paused_at IS NOT NULL) AS paused,
    pg_catalog.max(t.paused_because) AS paused_because,
    pg_catalog.max(l.max_running) AS "limit",
    pg_catalog.max(l.key_limit) AS key_limit,
    coalesce(pg_catalog.max(l.paused_keys), 0) AS paused_keys
FROM (
    SELECT
        j.job_type, j.status, pg_catalog.count(*) AS jobs,
        pg_catalog.count(*) FILTER (WHERE j.status OPERATOR(pg_catalog.=) 'pending' AND j.run_at OPERATOR(pg_catalog.>) howdah.clock()) AS scheduled,
        pg_catalog.min(j.run_at) FILTER (WHERE j.status OPERATOR(pg_catalog.=) 'pending' AND j.run_at OPERATOR(pg_catalog.<=) howdah.clock()) AS oldest_due,
        pg_catalog.count(*) FILTER (WHERE j.stalls_at OPERATOR(pg_catalog.<) howdah.clock()) AS stalled
    FROM howdah.live_jobs AS j
    GROUP BY j.job_type, j.status
    UNION ALL
    SELECT c.job_type, c.status, pg_catalog.sum(c.jobs), 0, NULL, 0
    FROM howdah.archive_counts AS c
    GROUP BY c.job_type, c.status
) AS n
FULL JOIN howdah.types AS t ON t.job_type OPERATOR(pg_catalog.=) n.job_type
LEFT JOIN limited AS l ON l.job_type OPERATOR(pg_catalog.=) t.job_type
GROUP BY 1
ORDER BY 1
