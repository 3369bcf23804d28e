-- Jobs that the sweep should have recovered or ended a minute ago: it runs every few seconds.
WITH now AS MATERIALIZED (
    SELECT
        howdah.clock() - interval '1 minute' AS clock, howdah.lease_clock() - interval '1 minute' AS lease_clock,
        s.cancel_grace
    FROM howdah.settings AS s
), job AS (
    SELECT j.id, j.job_type, j.worker_id, j.status, d.cause, d.since
    FROM howdah.live_jobs AS j
    CROSS JOIN now
    LEFT JOIN howdah.workers AS w ON w.worker_id = j.worker_id
    LEFT JOIN howdah.types AS t ON t.job_type = j.job_type
    CROSS JOIN LATERAL (
        SELECT 'orphaned' AS cause, coalesce(w.heartbeat_at, j.claimed_at) AS since
        WHERE j.status IN ('claimed', 'running') AND j.lease_until IS NULL AND CASE
            WHEN w.worker_id IS NULL THEN j.claimed_at < now.clock ELSE w.heartbeat_at < now.lease_clock - w.lease
        END
        UNION ALL
        SELECT 'lease', j.lease_until WHERE j.status IN ('claimed', 'running') AND j.lease_until < now.lease_clock
        UNION ALL
        -- Not the sum of any started_at and the timeout: a plain client can write times that are almost out of range.
        SELECT 'deadline', coalesce(j.deadline_at, least(j.started_at, now.clock) + t.timeout)
        WHERE j.status = 'running' AND coalesce(j.deadline_at < now.clock, j.started_at < now.clock - t.timeout)
        UNION ALL
        SELECT 'cancel', j.cancel_requested_at
        WHERE j.status = 'running' AND j.cancel_requested_at < now.clock - now.cancel_grace
        UNION ALL
        SELECT 'expired', j.expires_at WHERE j.status = 'pending' AND j.expires_at < now.clock
        UNION ALL
        SELECT 'spent', j.run_at WHERE j.status = 'pending' AND j.attempts >= j.max_attempts AND j.run_at < now.clock
        LIMIT 1
    ) AS d
)
SELECT
    job.cause, count(*) AS jobs,
    extract(epoch FROM howdah.clock() - min(greatest(job.since, timestamptz '2000-01-01')))::float8 AS seconds,
    min(job.id::text) AS first_id, (array_agg(DISTINCT job.job_type::text))[:5] AS job_types,
    (array_agg(DISTINCT job.worker_id::text) FILTER (WHERE job.status <> 'pending'))[:5] AS workers,
    (
        SELECT count(*) FROM howdah.workers AS w WHERE w.heartbeat_at >= howdah.lease_clock() - w.lease
    ) AS living
FROM job
GROUP BY job.cause
ORDER BY job.cause
