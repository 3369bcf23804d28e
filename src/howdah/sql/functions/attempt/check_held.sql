CREATE OR REPLACE FUNCTION howdah.check_held(p_worker_id varchar, p_ids uuid[], p_tokens bigint[])
RETURNS TABLE (id uuid, token bigint, state text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH listed AS MATERIALIZED (
        SELECT DISTINCT l.id, l.token FROM unnest(p_ids, p_tokens) AS l (id, token) WHERE l.id IS NOT NULL
    ), found AS MATERIALIZED (
        SELECT j.id, j.token, j.worker_id, j.status, j.cancel_requested_at FROM howdah.live AS j WHERE j.id = ANY (p_ids)
    )
    SELECT l.id, l.token, CASE WHEN f.id IS NULL THEN 'lost' ELSE 'cancel' END
    FROM listed AS l
    LEFT JOIN found AS f
        ON f.id = l.id AND f.token = l.token AND f.worker_id = p_worker_id AND f.status IN ('claimed', 'running')
    WHERE f.id IS NULL OR f.cancel_requested_at IS NOT NULL
    UNION ALL
    SELECT j.id, j.token, 'unknown'
    FROM howdah.live AS j
    WHERE j.worker_id = p_worker_id AND j.status IN ('claimed', 'running')
        AND NOT EXISTS (SELECT FROM listed AS l WHERE l.id = j.id AND l.token = j.token);
END
$$;
COMMENT ON FUNCTION howdah.check_held IS
    'The state of the claims that a worker lists, where it must act: cancel, the job should stop; lost, the worker no longer holds it;'
    ' unknown, the worker holds it but did not list it. All other claims are left out.';
REVOKE ALL ON FUNCTION howdah.check_held FROM PUBLIC;
