SELECT
    s.slot_name::text AS name, s.slot_type AS kind, s.wal_status,
    pg_wal_lsn_diff(
        CASE WHEN pg_is_in_recovery() THEN pg_last_wal_receive_lsn() ELSE pg_current_wal_lsn() END, s.restart_lsn
    )::bigint AS retained
FROM pg_replication_slots AS s
WHERE NOT s.active AND s.wal_status IN ('extended', 'unreserved')
ORDER BY retained DESC NULLS LAST
