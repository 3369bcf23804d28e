-- Drops the schema only if a bench made it, which is checked in the same transaction.
-- A session that uses it in an open transaction blocks this. The wait is bounded.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '2s';
SET LOCAL client_min_messages = warning;
DO $$
BEGIN
    IF obj_description(to_regnamespace('howdah'), 'pg_namespace')
        = 'Made by the command bench, which drops it when it ends, or replaces it when it begins.'
    THEN
        DROP SCHEMA howdah CASCADE;
    END IF;
END
$$;
