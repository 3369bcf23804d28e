SELECT
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) AS most,
    count(*) AS workers
FROM howdah.workers AS w
WHERE w.heartbeat_at >= howdah.lease_clock() - w.lease
