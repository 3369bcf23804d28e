CREATE OR REPLACE FUNCTION howdah.reprioritise(p_ids uuid[], p_priority int) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_job_types varchar[];
    v_flow_types varchar[];
    v_flow_keys text[];
BEGIN
    IF p_priority IS NULL THEN
        -- The table would refuse it too, but its error would show the job to roles that may not read it.
        RAISE EXCEPTION 'priority must not be NULL' USING ERRCODE = 'JQ001';
    END IF;
    WITH changed AS (
        UPDATE howdah.live AS j SET priority = p_priority, line = howdah.line_of(j.flow_key, j.run_at), own_write = NOT j.own_write
        -- Not the predicate of an index of pending jobs: these must be found by their ids, whatever the statistics.
        WHERE j.id = ANY (p_ids) AND j.status NOT IN ('claimed', 'running')
        RETURNING j.id, j.job_type, j.run_at, j.flow_key
    )
    SELECT
        array_agg(id), array_agg(DISTINCT job_type) FILTER (WHERE run_at <= howdah.clock() + interval '2 seconds'),
        array_agg(job_type) FILTER (WHERE flow_key IS NOT NULL), array_agg(flow_key) FILTER (WHERE flow_key IS NOT NULL)
    INTO v_ids, v_job_types, v_flow_types, v_flow_keys FROM changed;
    IF v_flow_types IS NOT NULL THEN
        PERFORM howdah.end_rests(v_flow_types, v_flow_keys);
    END IF;
    IF v_job_types IS NOT NULL THEN
        PERFORM howdah.notify_workers(v_job_types);
    END IF;
    RETURN QUERY SELECT unnest(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.reprioritise IS 'Sets the priority of pending jobs. Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.reprioritise FROM PUBLIC;
