-- What a name holds need not be what its worker holds: another process may have the name by now. So this asks for the
-- incarnation, and keeps it from changing hands until the jobs are back.
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
    'Hands back jobs that check_held calls unknown, as release does, unless the worker''s name is another''s by now. Returns what it changed.';
REVOKE ALL ON FUNCTION howdah.release_unknown FROM PUBLIC;
