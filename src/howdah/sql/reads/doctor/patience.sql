-- For the transaction of one check: it waits for nobody for long, and means PostgreSQL's own functions, whatever else is in sight.
-- The bounds of a partition are text, which is read again.
SELECT
    pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),
    pg_catalog.set_config('statement_timeout', '15s', true),
    pg_catalog.set_config('lock_timeout', '1s', true),
    pg_catalog.set_config('jit', 'off', true),
    pg_catalog.set_config('datestyle', 'ISO', true)
