-- Called after an advance has failed, because each call is a subtransaction.
CREATE OR REPLACE FUNCTION howdah.careful_step(p_node howdah.workflow_nodes, p_limit int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    RETURN howdah.node_step(p_node, p_limit);
EXCEPTION
    WHEN others THEN
        IF howdah.is_passing(SQLSTATE) THEN
            RAISE;
        END IF;
        RAISE WARNING 'node % of workflow % could not be advanced (%): %', p_node.name, p_node.workflow_id, p_node.step, SQLERRM;
        IF p_node.step <> 'release' THEN
            RETURN NULL;
        END IF;
        -- It would fail again and again: the node has failed, and the workflow goes on with that.
        UPDATE howdah.workflow_nodes AS n SET error = left('its jobs could not be made due: ' || SQLERRM, 1000), step = 'cancel', step_from = 0
        WHERE n.workflow_id = p_node.workflow_id AND n.node = p_node.node;
        RETURN 1;
END
$$;
COMMENT ON FUNCTION howdah.careful_step IS
    'As node_step. If it fails, it warns, and a node whose jobs cannot be made due has failed. Part of advance_workflow. Internal.';
REVOKE ALL ON FUNCTION howdah.careful_step FROM PUBLIC;
