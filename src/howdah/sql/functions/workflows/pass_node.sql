CREATE OR REPLACE FUNCTION howdah.pass_node(p_node howdah.workflow_nodes, p_limit int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_id uuid := p_node.workflow_id;
    v_children int[];
BEGIN
    IF p_node.node = 0 THEN
        UPDATE howdah.workflow_nodes AS n SET step = NULL, state = 'ended', ended_at = howdah.clock() WHERE n.workflow_id = v_id AND n.node = 0;
        PERFORM howdah.end_workflow(v_id);
        RETURN 1;
    END IF;
    v_children := ARRAY(
        SELECT e.child FROM howdah.workflow_edges AS e WHERE e.workflow_id = v_id AND e.parent = p_node.node AND NOT e.passed
        ORDER BY e.workflow_id, e.parent, e.child LIMIT p_limit
    );
    IF v_children <> '{}' THEN
        PERFORM FROM howdah.workflow_nodes AS n WHERE n.workflow_id = v_id AND n.node = ANY (v_children) ORDER BY n.node FOR UPDATE;
        UPDATE howdah.workflow_edges AS e SET passed = true WHERE e.workflow_id = v_id AND e.parent = p_node.node AND e.child = ANY (v_children);
        UPDATE howdah.workflow_nodes AS n SET
            waits = n.waits - 1,
            failed_parents = n.failed_parents + (p_node.outcome IN ('failed', 'cancelled'))::int,
            skipped_parents = n.skipped_parents + (p_node.outcome = 'skipped')::int,
            step = CASE WHEN (n.node = 0 OR n.state = 'ended') AND n.waits = 1 THEN 'pass' ELSE n.step END
        WHERE n.workflow_id = v_id AND n.node = ANY (v_children);
        PERFORM howdah.open_nodes(v_id, v_children);
    END IF;
    IF cardinality(v_children) < p_limit THEN
        UPDATE howdah.workflow_nodes AS n SET step = NULL WHERE n.workflow_id = v_id AND n.node = p_node.node;
    END IF;
    RETURN cardinality(v_children);
END
$$;
COMMENT ON FUNCTION howdah.pass_node IS
    'Tells p_limit children at most that a node has ended; of the last node, ends the workflow. Part of advance_workflow. Internal.';
REVOKE ALL ON FUNCTION howdah.pass_node FROM PUBLIC;
