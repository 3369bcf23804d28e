CREATE OR REPLACE FUNCTION howdah.reprioritise(p_ids uuid[], p_priority int) RETURNS TABLE (id uuid)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    UPDATE howdah.live AS j SET priority = p_priority
    WHERE j.id = ANY (p_ids) AND j.status = 'pending'
    RETURNING j.id
$$;
COMMENT ON FUNCTION howdah.reprioritise IS 'Sets the priority of pending jobs. Returns what it changed.';
REVOKE ALL ON FUNCTION howdah.reprioritise FROM PUBLIC;
