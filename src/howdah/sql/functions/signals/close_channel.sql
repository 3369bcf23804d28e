-- The row is only a lock, which the caller holds: another transaction that waits for it adds it again.
CREATE OR REPLACE FUNCTION howdah.close_channel(p_name varchar, p_key text) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
    DELETE FROM howdah.signal_channels AS c
    WHERE c.signal = p_name AND c.key = p_key
        AND NOT EXISTS (SELECT FROM howdah.signals AS s WHERE s.signal = p_name AND s.key = p_key)
        AND NOT EXISTS (
            SELECT FROM howdah.steps AS s WHERE s.signal = p_name AND s.key = p_key AND s.state = 'waiting' AND s.signal IS NOT NULL
        )
$$;
COMMENT ON FUNCTION howdah.close_channel IS 'Removes the lock of a name and key, which the caller holds, if nothing is kept and no job waits. Internal.';
REVOKE ALL ON FUNCTION howdah.close_channel FROM PUBLIC;
