-- What keeps the dead rows of this database from being removed: transactions with a snapshot, or with an id.
SELECT
    a.pid, a.usename::text AS role, a.application_name AS application, host(a.client_addr) AS client, a.state, a.query,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
    greatest(age(a.backend_xmin), age(a.backend_xid)) AS transactions,
    current_setting('idle_in_transaction_session_timeout') AS idle_limit
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() AND a.leader_pid IS NULL
    AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
    AND a.backend_type NOT IN ('autovacuum worker', 'walsender')
    AND a.xact_start < clock_timestamp() - make_interval(secs => %(patience)s)
    -- A vacuum does not keep rows from being removed.
    AND NOT EXISTS (SELECT FROM pg_stat_progress_vacuum AS v WHERE v.pid = a.pid)
ORDER BY transactions DESC, seconds DESC
LIMIT 20
