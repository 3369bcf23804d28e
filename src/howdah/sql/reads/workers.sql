SELECT
    w.worker_id, w.boot, w.host, w.pid, w.version, w.job_types, w.capacity, w.running, w.started_at, w.heartbeat_at,
    greatest(extract(epoch FROM howdah.lease_clock() - w.heartbeat_at), 0)::float8 AS age,
    w.heartbeat_at >= howdah.lease_clock() - w.lease AS alive,
    w.lease, w.last_claim_at, least(greatest(w.loop_lag, '0'), interval '36500 days') AS loop_lag, w.leaked, w.meta, w.pace
FROM howdah.workers AS w
ORDER BY w.worker_id
