SELECT
    -- Counts that a crash may empty: they are made again.
    c.relname::text AS name, c.relpersistence = 'u' AND c.relname <> 'backlog_counts' AS is_unlogged,
    EXISTS (
        SELECT FROM unnest(c.reloptions) AS o WHERE o ~ '^autovacuum_enabled=(off|false|no|0)$'
    ) AS is_left_out,
    coalesce(s.n_live_tup, 0) AS live_rows, coalesce(s.n_dead_tup, 0) AS dead_rows,
    greatest(s.last_vacuum, s.last_autovacuum) AS last_vacuum,
    extract(epoch FROM clock_timestamp() - coalesce(
        greatest(s.last_vacuum, s.last_autovacuum), greatest(v.migrated_at, pg_postmaster_start_time())
    ))::float8 AS seconds,
    greatest(age(c.relfrozenxid)::bigint, 0) AS transactions,
    current_setting('autovacuum_freeze_max_age')::bigint AS freeze_at
FROM pg_class AS c
CROSS JOIN howdah.schema_version AS v
LEFT JOIN pg_stat_all_tables AS s ON s.relid = c.oid
WHERE c.relnamespace = 'howdah'::regnamespace AND c.relkind = 'r'
ORDER BY c.relname
