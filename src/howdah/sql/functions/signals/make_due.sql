CREATE OR REPLACE FUNCTION howdah.make_due(p_ids uuid[], p_tokens bigint[]) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY and a hash join, whatever the statistics: a plan made for an empty table must hold for a full one.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_job_types varchar[];
    v_flow_types varchar[];
    v_flow_keys text[];
BEGIN
    SELECT array_agg(locked.id) INTO v_ids FROM (
        SELECT j.id FROM howdah.live AS j JOIN unnest(p_ids, p_tokens) AS waiting (id, token) ON waiting.id = j.id AND waiting.token = j.token
        -- Not the predicate of an index of pending jobs: these must be found by their ids.
        WHERE j.id = ANY (p_ids) AND j.status NOT IN ('claimed', 'running')
        FOR UPDATE OF j SKIP LOCKED
    ) AS locked;
    WITH changed AS (
        UPDATE howdah.live AS j SET run_at = howdah.clock(), line = howdah.line_of(j.flow_key, howdah.clock()), own_write = NOT j.own_write
        WHERE j.id = ANY (v_ids)
        RETURNING j.job_type, j.flow_key
    )
    SELECT
        array_agg(DISTINCT job_type), array_agg(job_type) FILTER (WHERE flow_key IS NOT NULL),
        array_agg(flow_key) FILTER (WHERE flow_key IS NOT NULL)
    INTO v_job_types, v_flow_types, v_flow_keys FROM changed;
    IF v_flow_types IS NOT NULL THEN
        PERFORM howdah.end_rests(v_flow_types, v_flow_keys);
    END IF;
    IF v_job_types IS NOT NULL THEN
        PERFORM howdah.notify_workers(v_job_types);
    END IF;
    RETURN QUERY SELECT unnest(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.make_due IS
    'Makes jobs that wait due now, if they still have these tokens, and returns them. A job that another transaction has locked is left out.'
    ' Internal.';
REVOKE ALL ON FUNCTION howdah.make_due FROM PUBLIC;
