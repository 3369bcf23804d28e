-- Jobs held under a name need not be held by this worker: another process may have taken the name. So this checks the incarnation,
-- and locks it until the jobs are released.
CREATE OR REPLACE FUNCTION howdah.release_unknown(
    p_worker_id varchar,
    p_incarnation uuid,
    p_ids uuid[],
    p_tokens bigint[]
) RETURNS TABLE (id uuid, status varchar)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM FROM howdah.workers AS w WHERE w.worker_id = p_worker_id AND w.incarnation = p_incarnation FOR SHARE;
    IF FOUND THEN
        RETURN QUERY SELECT r.* FROM howdah.release(p_ids, p_tokens, true) AS r;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.release_unknown IS
    'Releases jobs that check_held returned as unknown, unless another process has taken the worker''s name. Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.release_unknown FROM PUBLIC;
