WITH due AS MATERIALIZED (
    SELECT
        -- A job may be due since -infinity: count from its creation.
        j.job_type, count(*) AS jobs, min(greatest(j.run_at, j.created_at, timestamptz '2000-01-01')) AS since
    FROM howdah.live_jobs AS j
    WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.run_at <= howdah.clock()
        AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
    GROUP BY j.job_type
), worker AS MATERIALIZED (
    SELECT * FROM howdah.workers AS w WHERE w.heartbeat_at >= howdah.lease_clock() - w.lease
)
SELECT
    d.job_type, d.jobs, extract(epoch FROM howdah.clock() - d.since)::float8 AS seconds,
    extract(epoch FROM howdah.clock() - t.paused_at)::float8 AS paused_for, t.paused_because,
    coalesce(t.ordered, false) AS ordered, t.declared_at IS NOT NULL AS declared,
    (SELECT count(*) FROM worker) AS living,
    ARRAY(
        SELECT w.worker_id::text FROM worker AS w
        WHERE w.job_types IS NULL OR d.job_type = ANY (w.job_types) ORDER BY 1
    ) AS workers,
    NOT EXISTS (
        SELECT FROM worker AS w
        WHERE (w.job_types IS NULL OR d.job_type = ANY (w.job_types))
            AND (w.running IS NULL OR w.capacity IS NULL OR w.running < w.capacity)
    ) AS is_full,
    EXISTS (
        SELECT FROM howdah.live_jobs AS j
        WHERE j.job_type = d.job_type AND (
            j.status IN ('claimed', 'running') OR howdah.timestamp_in(j.errors -> -1 -> 'at') > howdah.clock() - make_interval(secs => %(patience)s)
            -- The head of an ordered type that backs off blocks its lane.
            OR (j.order_key IS NOT NULL AND j.status = 'pending' AND j.run_at > howdah.clock() AND j.first_due_at <= howdah.clock())
        )
    ) OR EXISTS (SELECT FROM worker AS w WHERE jsonb_exists(w.throughput, d.job_type)) AS moves,
    EXISTS (
        SELECT FROM howdah.archive_counts AS c
        WHERE c.job_type = d.job_type AND c.status = 'completed' AND c.day >= (howdah.clock() AT TIME ZONE 'UTC')::date - 1
    ) AS completed_lately
FROM due AS d
LEFT JOIN howdah.types AS t ON t.job_type = d.job_type
ORDER BY d.job_type
