CREATE OR REPLACE FUNCTION howdah.end_workflow(p_workflow_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_failed text;
    v_cancelled boolean;
    v_workflow howdah.workflows;
BEGIN
    SELECT min(n.name) FILTER (WHERE n.outcome = 'failed'), bool_or(n.outcome = 'cancelled') INTO v_failed, v_cancelled
    FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node > 0;
    UPDATE howdah.workflows AS w SET
        status = CASE
            -- Its deadline, or its maximum age, has passed.
            WHEN w.error IS NOT NULL THEN 'failed' WHEN w.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN v_failed IS NOT NULL THEN 'failed' WHEN v_cancelled THEN 'cancelled' ELSE 'completed'
        END,
        error = coalesce(w.error, CASE WHEN w.cancel_requested_at IS NULL THEN 'node ' || v_failed || ' failed' END),
        finished_at = howdah.clock()
    WHERE w.id = p_workflow_id AND w.finished_at IS NULL
    RETURNING w.* INTO v_workflow;
    IF FOUND THEN
        PERFORM howdah.note_workflow(v_workflow);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.end_workflow IS 'Ends a workflow whose nodes have all ended. Internal.';
REVOKE ALL ON FUNCTION howdah.end_workflow FROM PUBLIC;
