CREATE OR REPLACE FUNCTION howdah.node_step(p_node howdah.workflow_nodes, p_limit int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN CASE p_node.step
        WHEN 'pass' THEN howdah.pass_node(p_node, p_limit)
        WHEN 'release' THEN howdah.release_node(p_node, p_limit)
        WHEN 'count' THEN howdah.count_node(p_node)
        ELSE howdah.cancel_node(p_node, p_limit)
    END;
END
$$;
COMMENT ON FUNCTION howdah.node_step IS 'Does what is to be done for a node. NULL: the rest is locked. Part of advance_workflow. Internal.';
REVOKE ALL ON FUNCTION howdah.node_step FROM PUBLIC;
