-- Replication slots, and standbys with hot_standby_feedback, keep dead rows too. PostgreSQL does not record for how long. But the events
-- of the queue have a transaction id and a time: the first event after the held transaction shows the minimum.
WITH holder AS (
    SELECT 'slot' AS kind, s.slot_name::text AS name, s.active, s.xmin AS held FROM pg_replication_slots AS s WHERE s.xmin IS NOT NULL
    UNION ALL
    SELECT 'standby', coalesce(nullif(r.application_name, ''), host(r.client_addr), 'pid ' || r.pid), true, r.backend_xmin
    FROM pg_stat_replication AS r WHERE r.backend_xmin IS NOT NULL
)
SELECT
    h.kind, h.name, h.active, age(h.held) AS transactions,
    (
        SELECT extract(epoch FROM howdah.clock() - e.at)::float8 FROM howdah.event_details AS e
        WHERE e.xid > (pg_snapshot_xmax(pg_current_snapshot())::text::bigint - age(h.held))::text::xid8
        ORDER BY e.xid LIMIT 1
    ) AS seconds
FROM holder AS h
ORDER BY transactions DESC
