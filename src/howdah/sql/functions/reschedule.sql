CREATE OR REPLACE FUNCTION howdah.reschedule(p_ids uuid[], p_run_at timestamptz DEFAULT NULL, p_delay interval DEFAULT NULL) RETURNS TABLE (id uuid)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    UPDATE howdah.live AS j SET
        run_at = coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock()),
        first_due_at = coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock())
    WHERE j.id = ANY (p_ids) AND j.status = 'pending'
    RETURNING j.id
$$;
COMMENT ON FUNCTION howdah.reschedule IS 'Sets when pending jobs become due: at p_run_at, after p_delay, or now. Returns what it changed.';
REVOKE ALL ON FUNCTION howdah.reschedule FROM PUBLIC;
