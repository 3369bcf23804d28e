CREATE OR REPLACE FUNCTION howdah.prune_signals(p_limit int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_signals varchar[];
    v_keys text[];
BEGIN
    WITH removed AS (
        -- By their places: a join would read all signals if the statistics say that there are few, or that most are old.
        DELETE FROM howdah.signals AS s WHERE s.ctid = ANY (ARRAY(
            SELECT d.ctid FROM howdah.signals AS d
            WHERE d.kept_at < howdah.clock() - (SELECT t.archive_retention FROM howdah.settings AS t)
            ORDER BY d.kept_at LIMIT p_limit FOR UPDATE SKIP LOCKED
        ))
        RETURNING s.signal, s.key
    )
    SELECT array_agg(r.signal), array_agg(r.key) INTO v_signals, v_keys FROM removed AS r;
    PERFORM howdah.close_channels(v_signals, v_keys);
    RETURN coalesce(cardinality(v_signals), 0);
END
$$;
COMMENT ON FUNCTION howdah.prune_signals IS
    'Removes signals that were kept for longer than settings.archive_retention, p_limit of them at most. Returns how many. Part of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.prune_signals FROM PUBLIC;
