-- How large everything is at one moment. The archive by its own count, and events by the server's estimate: to count
-- millions of rows every few seconds would be a load of its own.
SELECT
    pg_catalog.pg_relation_size('howdah.live') AS table_bytes,
    pg_catalog.pg_indexes_size('howdah.live') AS index_bytes,
    pg_catalog.pg_table_size('howdah.live') OPERATOR(pg_catalog.-) pg_catalog.pg_relation_size('howdah.live') AS beside_bytes,
    stats.n_dead_tup AS dead,
    stats.autovacuum_count AS vacuums,
    (SELECT pg_catalog.count(*) FROM howdah.live AS j WHERE j.status OPERATOR(pg_catalog.=) 'pending') AS waiting,
    (SELECT pg_catalog.count(*) FROM howdah.live AS j WHERE j.status OPERATOR(pg_catalog.<>) 'pending') AS held,
    (SELECT coalesce(pg_catalog.sum(c.jobs), 0)::bigint FROM howdah.archive_counts AS c) AS archived,
    (
        SELECT coalesce(pg_catalog.sum(e.n_live_tup), 0)::bigint
        FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_stat_user_tables AS e ON e.relid OPERATOR(pg_catalog.=) i.inhrelid
        WHERE i.inhparent OPERATOR(pg_catalog.=) 'howdah.events'::pg_catalog.regclass
    ) AS events,
    (
        SELECT pg_catalog.count(*) FROM pg_catalog.pg_stat_activity AS a
        WHERE a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND pg_catalog.starts_with(a.application_name, %(run)s)
    ) AS connections
FROM pg_catalog.pg_stat_user_tables AS stats
WHERE stats.relid OPERATOR(pg_catalog.=) 'howdah.live'::pg_catalog.regclass
