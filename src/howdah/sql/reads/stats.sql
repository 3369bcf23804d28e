SELECT
    coalesce(n.job_type, t.job_type) AS job_type,
    coalesce(sum(n.jobs) FILTER (WHERE n.status = 'pending'), 0)::bigint AS pending,
    coalesce(sum(n.scheduled), 0)::bigint AS scheduled,
    coalesce(sum(n.jobs) FILTER (WHERE n.status = 'claimed'), 0)::bigint AS claimed,
    coalesce(sum(n.jobs) FILTER (WHERE n.status = 'running'), 0)::bigint AS running,
    coalesce(sum(n.stalled), 0)::bigint AS stalled,
    coalesce(sum(n.jobs) FILTER (WHERE n.status = 'completed'), 0)::bigint AS completed,
    coalesce(sum(n.jobs) FILTER (WHERE n.status = 'failed'), 0)::bigint AS failed,
    coalesce(sum(n.jobs) FILTER (WHERE n.status = 'cancelled'), 0)::bigint AS cancelled,
    min(n.oldest_due) AS oldest_due,
    bool_or(t.paused_at IS NOT NULL) AS paused,
    max(t.paused_because) AS paused_because
FROM (
    SELECT
        j.job_type, j.status, count(*) AS jobs,
        count(*) FILTER (WHERE j.status = 'pending' AND j.run_at > howdah.clock()) AS scheduled,
        min(j.run_at) FILTER (WHERE j.status = 'pending' AND j.run_at <= howdah.clock()) AS oldest_due,
        count(*) FILTER (WHERE j.stalls_at < howdah.clock()) AS stalled
    FROM howdah.live_jobs AS j
    GROUP BY j.job_type, j.status
    UNION ALL
    SELECT c.job_type, c.status, sum(c.jobs), 0, NULL, 0
    FROM howdah.archive_counts AS c
    GROUP BY c.job_type, c.status
) AS n
FULL JOIN howdah.types AS t ON t.job_type = n.job_type
GROUP BY 1
ORDER BY 1
