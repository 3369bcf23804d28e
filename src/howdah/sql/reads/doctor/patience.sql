-- For the transaction of one check: it waits only briefly for locks, and resolves names to functions of PostgreSQL, whatever the
-- search_path of the login. The bounds of a segment are text that is parsed again: hence the datestyle.
SELECT
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('statement_timeout', '15s', true),
    pg_catalog.set_config('lock_timeout', '1s', true),
    pg_catalog.set_config('jit', 'off', true),
    pg_catalog.set_config('datestyle', 'ISO', true)
