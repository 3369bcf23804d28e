CREATE OR REPLACE FUNCTION howdah.skip_locked(p_ids uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Rows must be found by id, whatever the statistics, and locked in the order of their ids: see complete.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_free uuid[];
BEGIN
    SELECT array_agg(j.id) INTO v_free FROM (
        SELECT l.id FROM howdah.live AS l WHERE l.id = ANY (p_ids) ORDER BY l.id FOR UPDATE SKIP LOCKED
    ) AS j;
    RETURN ARRAY(
        SELECT j.id FROM howdah.live AS j WHERE j.id = ANY (p_ids) AND j.id <> ALL (coalesce(v_free, '{}'))
    );
END
$$;
COMMENT ON FUNCTION howdah.skip_locked IS
    'Locks those of the jobs that no other transaction has locked, and returns the others. For a batch that must not wait for locks:'
    ' in one transaction, call this first, and then the function for all jobs but the returned ones.';
REVOKE ALL ON FUNCTION howdah.skip_locked FROM PUBLIC;
