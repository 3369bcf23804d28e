-- How large everything is at one moment. The archive by its own count, and events by the server's estimate: to count
-- millions of rows every few seconds would be a load of its own.
SELECT
    pg_relation_size('howdah.live') AS table_bytes,
    pg_indexes_size('howdah.live') AS index_bytes,
    pg_table_size('howdah.live') - pg_relation_size('howdah.live') AS beside_bytes,
    stats.n_dead_tup AS dead,
    stats.autovacuum_count AS vacuums,
    (SELECT count(*) FROM howdah.live AS j WHERE j.status = 'pending') AS waiting,
    (SELECT count(*) FROM howdah.live AS j WHERE j.status <> 'pending') AS held,
    (SELECT coalesce(sum(c.jobs), 0)::bigint FROM howdah.archive_counts AS c) AS archived,
    (
        SELECT coalesce(sum(e.n_live_tup), 0)::bigint
        FROM pg_inherits AS i JOIN pg_stat_user_tables AS e ON e.relid = i.inhrelid
        WHERE i.inhparent = 'howdah.events'::regclass
    ) AS events,
    (
        SELECT count(*) FROM pg_stat_activity AS a
        WHERE a.datname = current_database() AND starts_with(a.application_name, %(run)s)
    ) AS connections
FROM pg_stat_user_tables AS stats
WHERE stats.relid = 'howdah.live'::regclass
