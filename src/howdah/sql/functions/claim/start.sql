CREATE OR REPLACE FUNCTION howdah.start(
    p_ids uuid[],
    p_tokens bigint[]
) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY and a merge join, whatever the statistics: a plan made for an empty table must hold for a full one, and
-- all functions must lock rows in the order of their ids, or two batches deadlock.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET enable_hashjoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    UPDATE howdah.live AS j SET
        status = 'running',
        started_at = CASE WHEN j.status = 'running' THEN j.claimed_at ELSE howdah.clock() END,
        deadline_at = howdah.clock() + j.timeout,
        lease_until = howdah.lease_clock() + j.lease,
        own_write = NOT j.own_write
    FROM unnest(p_ids, p_tokens) AS begun (id, token)
    WHERE j.id = ANY (p_ids) AND j.id = begun.id AND j.token = begun.token
        -- Not the predicate of the index of held jobs: these must be found by their ids.
        AND j.status <> 'pending' AND (j.status <> 'running' OR j.started_at IS NULL)
    RETURNING j.id;
END
$$;
COMMENT ON FUNCTION howdah.start IS
    'Marks claimed jobs as running, and notes that jobs which their claim started ahead have begun. Returns the ids that it changed: only'
    ' those may be run.';
REVOKE ALL ON FUNCTION howdah.start FROM PUBLIC;
