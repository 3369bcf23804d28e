CREATE OR REPLACE FUNCTION howdah.record_audit(
    p_visitor text,
    p_action text,
    p_target jsonb DEFAULT NULL,
    p_jobs bigint DEFAULT NULL,
    p_outcome text DEFAULT NULL,
    p_keep interval DEFAULT '400 days'
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_number bigint;
BEGIN
    PERFORM howdah.check_size(ARRAY[p_target], 'the target of an action') WHERE pg_column_size(p_target) > 65536;
    INSERT INTO howdah.audit (at, visitor, login, action, target, jobs, outcome)
    VALUES (
        howdah.clock(), left(coalesce(nullif(p_visitor, ''), '?'), 100), session_user, left(p_action, 50), coalesce(p_target, '{}'), p_jobs,
        left(p_outcome, 500)
    )
    RETURNING number INTO v_number;
    -- A few with each call, so that none has much to delete.
    DELETE FROM howdah.audit AS a WHERE a.ctid = ANY (ARRAY(
        SELECT o.ctid FROM howdah.audit AS o
        WHERE o.at < howdah.clock() - howdah.clamp_interval(greatest(p_keep, '1 day')) ORDER BY o.at LIMIT 10 FOR UPDATE SKIP LOCKED
    ));
    RETURN v_number;
END
$$;
COMMENT ON FUNCTION howdah.record_audit IS
    'Records an action of a visitor of the dashboard, and returns its number. p_target: the job, the type or the filter; p_jobs: how many jobs were'
    ' changed; p_outcome: what came of it, in words. Entries that are older than p_keep are deleted, a few with each call.';
REVOKE ALL ON FUNCTION howdah.record_audit FROM PUBLIC;
