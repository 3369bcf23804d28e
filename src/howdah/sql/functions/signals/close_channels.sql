-- Those that another transaction uses are left to it.
CREATE OR REPLACE FUNCTION howdah.close_channels(p_signals varchar[], p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE STRICT
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    -- What is kept, or waits, is looked up by another statement than the one that locks, to see what was committed until then.
    SELECT array_agg(l.signal), array_agg(l.key) INTO p_signals, p_keys FROM (
        SELECT c.signal, c.key FROM howdah.signal_channels AS c
        JOIN (SELECT DISTINCT u.signal, u.key FROM unnest(p_signals, p_keys) AS u (signal, key)) AS d ON d.signal = c.signal AND d.key = c.key
        FOR UPDATE OF c SKIP LOCKED
    ) AS l;
    PERFORM howdah.close_channel(u.signal, u.key) FROM unnest(p_signals, p_keys) AS u (signal, key);
END
$$;
COMMENT ON FUNCTION howdah.close_channels IS 'Removes the locks of names and keys for which nothing is kept and no job waits. Internal.';
REVOKE ALL ON FUNCTION howdah.close_channels FROM PUBLIC;
