-- Other sessions cannot see which sessions listen. But a listener that blocks the queue is in a transaction, or does not read
-- its notifications.
SELECT
    pg_notification_queue_usage() AS usage, a.pid, a.usename::text AS role, a.application_name AS application,
    host(a.client_addr) AS client, a.state, a.query,
    extract(epoch FROM clock_timestamp() - a.xact_start)::float8 AS seconds
FROM (SELECT) AS it
LEFT JOIN LATERAL (
    SELECT * FROM pg_stat_activity AS s
    WHERE s.pid <> pg_backend_pid() AND s.backend_type = 'client backend'
        AND (s.xact_start IS NOT NULL OR s.wait_event = 'ClientWrite')
    ORDER BY (s.wait_event = 'ClientWrite') IS TRUE DESC, s.xact_start LIMIT 1
) AS a ON true
