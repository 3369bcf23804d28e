-- A node is locked while its step is done. So two calls do different nodes, and neither waits for the other but at a common child.
CREATE OR REPLACE FUNCTION howdah.advance_workflow(p_workflow_id uuid, p_limit int, p_careful boolean DEFAULT false) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_left int := p_limit;
    v_node howdah.workflow_nodes;
    v_done int;
    v_locked int[] := '{}';
BEGIN
    WHILE v_left > 0 LOOP
        SELECT n.* INTO v_node FROM howdah.workflow_nodes AS n
        WHERE n.workflow_id = p_workflow_id AND n.step IS NOT NULL AND n.step <> 'expand' AND n.node <> ALL (v_locked)
        ORDER BY n.workflow_id, n.node LIMIT 1
        FOR UPDATE SKIP LOCKED;
        EXIT WHEN NOT FOUND;
        v_done := CASE
            WHEN p_careful THEN howdah.careful_step(v_node, v_left)
            ELSE howdah.node_step(v_node, v_left)
        END;
        IF v_done IS NULL THEN
            -- What is left of it is locked by other transactions.
            v_locked := v_locked || v_node.node;
        ELSE
            v_left := v_left - v_done - 1;
        END IF;
        IF v_node.step IN ('skip', 'cancel') THEN
            PERFORM howdah.fold_workflow(p_workflow_id);
        END IF;
    END LOOP;
    RETURN p_limit - v_left;
END
$$;
COMMENT ON FUNCTION howdah.advance_workflow IS
    'Does what is to be done for the nodes of a workflow, about p_limit jobs and edges of it. Returns how many. p_careful: a node that fails stops'
    ' no other (see careful_step). Internal.';
REVOKE ALL ON FUNCTION howdah.advance_workflow FROM PUBLIC;
