-- Whoever looks at it in an open transaction is in the way; but not for ever.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '10s';
DROP SCHEMA IF EXISTS howdah CASCADE;
