-- A session that uses it in an open transaction blocks this. The wait is bounded.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '10s';
DROP SCHEMA IF EXISTS howdah CASCADE;
