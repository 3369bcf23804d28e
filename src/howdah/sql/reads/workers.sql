SELECT
    w.worker_id, w.incarnation, w.host, w.pid, w.version, w.job_types, w.capacity, w.running, w.started_at, w.heartbeat_at,
    greatest(extract(epoch FROM howdah.lease_clock() OPERATOR(pg_catalog.-) w.heartbeat_at), 0)::pg_catalog.float8 AS age,
    w.heartbeat_at OPERATOR(pg_catalog.>=) (howdah.lease_clock() OPERATOR(pg_catalog.-) w.lease) AS alive,
    w.lease, w.last_claim_at, least(greatest(w.loop_lag, '0'::pg_catalog.interval), '36500 days'::pg_catalog.interval) AS loop_lag, w.leaked, w.meta, w.throughput
FROM howdah.workers AS w
ORDER BY w.worker_id
