-- What the figures depend on.
SELECT name, pg_catalog.current_setting(name) AS setting
FROM pg_catalog.unnest(ARRAY[
    'server_version', 'synchronous_commit', 'fsync', 'full_page_writes', 'wal_level', 'shared_buffers', 'max_connections',
    'max_wal_size', 'commit_delay', 'jit', 'autovacuum'
]) AS name
