-- Locks that workers or producers wait for, and those that are only requested: every later request waits behind them, too, and any login
-- that may use the schema can request one. Closed segments come and go, and nothing waits for them.
SELECT
    a.pid, a.usename::text AS role, a.application_name AS application, host(a.client_addr) AS client, a.state, a.query,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds,
    array_agg(DISTINCT c.relname::text) AS relations,
    array_agg(DISTINCT l.mode) AS modes,
    bool_or(l.granted) AS granted,
    pg_blocking_pids(a.pid) AS behind,
    (
        SELECT count(DISTINCT w.pid) FROM pg_locks AS w
        WHERE NOT w.granted AND a.pid = ANY (pg_blocking_pids(w.pid))
    ) AS waiting
FROM pg_locks AS l
JOIN pg_class AS c ON c.oid = l.relation
JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.locktype = 'relation' AND l.pid <> pg_backend_pid()
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
    AND c.relnamespace = 'howdah'::regnamespace AND c.relname !~ '^(archive|events)_[0-9]+$'
    AND a.backend_type <> 'autovacuum worker'
    AND a.xact_start < clock_timestamp() - make_interval(secs => %(seconds)s)
GROUP BY a.pid, a.usename, a.application_name, a.client_addr, a.state, a.query, a.xact_start
ORDER BY seconds DESC
