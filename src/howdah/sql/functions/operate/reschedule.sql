CREATE OR REPLACE FUNCTION howdah.reschedule(p_ids uuid[], p_run_at timestamptz DEFAULT NULL, p_delay interval DEFAULT NULL) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_due timestamptz := coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock());
    v_ids uuid[];
    v_job_types varchar[];
    v_flow_types varchar[];
    v_flow_keys text[];
BEGIN
    WITH changed AS (
        UPDATE howdah.live AS j SET run_at = v_due, first_due_at = v_due, line = howdah.line_of(j.flow_key, v_due), own_write = NOT j.own_write
        -- Not the predicate of an index of pending jobs: these must be found by their ids, whatever the statistics.
        WHERE j.id = ANY (p_ids) AND j.status NOT IN ('claimed', 'running')
            AND (j.has_steps IS NULL OR NOT howdah.is_waiting(j.id, j.token))
            -- It waits for other jobs of its workflow.
            AND NOT (j.node IS NOT NULL AND j.first_due_at = 'infinity')
        RETURNING j.id, j.job_type, j.flow_key
    )
    SELECT
        array_agg(id), array_agg(DISTINCT job_type), array_agg(job_type) FILTER (WHERE flow_key IS NOT NULL),
        array_agg(flow_key) FILTER (WHERE flow_key IS NOT NULL)
    INTO v_ids, v_job_types, v_flow_types, v_flow_keys FROM changed;
    IF v_flow_types IS NOT NULL THEN
        PERFORM howdah.end_rests(v_flow_types, v_flow_keys);
    END IF;
    IF v_job_types IS NOT NULL AND v_due <= howdah.clock() + interval '2 seconds' THEN
        PERFORM howdah.notify_workers(v_job_types);
    END IF;
    RETURN QUERY SELECT unnest(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.reschedule IS 'Sets when pending jobs become due: at p_run_at, after p_delay, or now. A job that waits for a signal or for others of its workflow, or sleeps, is left as it is.'
    ' Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.reschedule FROM PUBLIC;
