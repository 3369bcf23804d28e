-- An INSERT that finds the row updates it. So a transaction with an older snapshot (REPEATABLE READ) fails here with 40001, instead of
-- missing a job that has begun to wait since.
CREATE OR REPLACE FUNCTION howdah.lock_channel(p_name varchar, p_key text) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    INSERT INTO howdah.signal_channels AS c (signal, key, used_at) VALUES (p_name, p_key, howdah.clock())
    ON CONFLICT (signal, key) DO UPDATE SET used_at = excluded.used_at
$$;
COMMENT ON FUNCTION howdah.lock_channel IS 'Locks the signals of a name and key until the end of the transaction. Internal.';
REVOKE ALL ON FUNCTION howdah.lock_channel FROM PUBLIC;
