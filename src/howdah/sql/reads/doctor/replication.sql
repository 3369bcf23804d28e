-- Slots, and standbys that ask for it, keep dead rows too. For how long, nobody notes: but the queue's own events tell which
-- transactions there were at what time, so that the first one behind says how long it is at least.
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
