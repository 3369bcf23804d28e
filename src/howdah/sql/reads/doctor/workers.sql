SELECT
    w.worker_id::text, w.host, w.pid, w.version,
    extract(epoch FROM howdah.lease_clock() - w.heartbeat_at)::float8 AS age,
    extract(epoch FROM w.lease)::float8 AS lease,
    w.heartbeat_at >= howdah.lease_clock() - w.lease AS alive,
    extract(epoch FROM howdah.clock() - w.started_at)::float8 AS up,
    extract(epoch FROM least(greatest(w.loop_lag, '0'), interval '36500 days'))::float8 AS loop_lag, coalesce(w.leaked, 0) AS leaked,
    EXISTS (
        SELECT FROM howdah.live_jobs AS j WHERE j.worker_id = w.worker_id AND j.status IN ('claimed', 'running')
    ) AS holds
FROM howdah.workers AS w
ORDER BY w.worker_id
