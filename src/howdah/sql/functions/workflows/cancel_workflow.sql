CREATE OR REPLACE FUNCTION howdah.cancel_workflow(p_id uuid, p_reason text DEFAULT NULL, p_fails boolean DEFAULT false, p_all boolean DEFAULT false) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    PERFORM FROM howdah.workflows AS w WHERE w.id = p_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no workflow %', p_id USING ERRCODE = 'JQ024', HINT = 'It may have been pruned.';
    END IF;
    UPDATE howdah.workflows AS w SET
        cancel_requested_at = coalesce(w.cancel_requested_at, howdah.clock()), cancel_reason = coalesce(left(p_reason, 10000), w.cancel_reason),
        cancel_all = w.cancel_all OR p_all,
        error = CASE WHEN p_fails THEN coalesce(left(p_reason, 10000), 'cancelled') ELSE w.error END
    WHERE w.id = p_id AND w.finished_at IS NULL AND w.started_at IS NOT NULL
        AND (w.cancel_requested_at IS NULL OR p_fails AND w.error IS NULL OR p_all AND NOT w.cancel_all);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    -- A transaction that adds jobs to a node, or makes them due, holds its row: this comes after it, or they see the mark.
    PERFORM FROM howdah.workflow_nodes AS n
    WHERE n.workflow_id = p_id AND n.node > 0 AND n.state <> 'ended' AND (n.when_ <> 'always' OR p_all) ORDER BY n.node FOR UPDATE;
    UPDATE howdah.workflow_nodes AS n SET step = 'cancel', step_from = 0, error = CASE WHEN n.step = 'skip' THEN n.error END
    WHERE n.workflow_id = p_id AND n.node > 0 AND n.state <> 'ended' AND (n.when_ <> 'always' OR p_all)
        AND n.step IS DISTINCT FROM 'skip';
    -- The mark stays, whatever is wrong with a node: a deadline does not come again.
    PERFORM howdah.try_advance(p_id, 1000);
    PERFORM howdah.notify_advance(p_id);
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.cancel_workflow IS
    'Cancels a workflow: its waiting jobs end, running ones are asked to stop, and nothing more becomes due, but nodes with when = always. A worker'
    ' goes on with what is left. p_fails: the workflow fails, for this reason. p_all: those nodes are cancelled, too. False: it has ended, or was cancelled before.';
REVOKE ALL ON FUNCTION howdah.cancel_workflow FROM PUBLIC;
