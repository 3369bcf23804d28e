-- p_all false: only waits that timed out, or have not ended.
CREATE OR REPLACE FUNCTION howdah.remove_steps(p_ids uuid[], p_all boolean DEFAULT true) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_signals varchar[];
    v_keys text[];
BEGIN
    WITH removed AS (
        DELETE FROM howdah.steps AS s
        WHERE s.job_id = ANY (p_ids) AND (p_all OR (s.state <> 'done' AND (s.kind <> 'sleep' OR s.until > howdah.clock())))
        RETURNING s.state, s.signal, s.key
    )
    SELECT array_agg(r.signal), array_agg(r.key) INTO v_signals, v_keys FROM removed AS r WHERE r.state = 'waiting' AND r.signal IS NOT NULL;
    PERFORM howdah.close_channels(v_signals, v_keys);
END
$$;
COMMENT ON FUNCTION howdah.remove_steps IS 'Removes the steps of jobs that are deleted, or run again. Internal.';
REVOKE ALL ON FUNCTION howdah.remove_steps FROM PUBLIC;
