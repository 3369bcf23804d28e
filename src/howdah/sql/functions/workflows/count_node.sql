CREATE OR REPLACE FUNCTION howdah.count_node(p_node howdah.workflow_nodes) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.workflow_nodes AS n SET step = NULL WHERE n.workflow_id = p_node.workflow_id AND n.node = p_node.node;
    PERFORM howdah.fold_workflow(p_node.workflow_id);
    PERFORM howdah.end_nodes(p_node.workflow_id, ARRAY[p_node.node]);
    RETURN CASE WHEN EXISTS (
        SELECT FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_node.workflow_id AND n.node = p_node.node AND n.step = 'count'
    ) THEN NULL ELSE 1 END;
END
$$;
COMMENT ON FUNCTION howdah.count_node IS 'Looks again whether a node has ended. Part of advance_workflow. Internal.';
REVOKE ALL ON FUNCTION howdah.count_node FROM PUBLIC;
