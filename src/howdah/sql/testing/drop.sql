SET LOCAL lock_timeout = '2s';
DROP SCHEMA IF EXISTS howdah CASCADE;
