-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.node_ranges(p_node howdah.workflow_nodes) RETURNS TABLE (first_id uuid, end_id uuid)
LANGUAGE sql STABLE
AS $$
    SELECT p_node.first_id, howdah.member_id(p_node.first_id, p_node.jobs) WHERE p_node.jobs > 0
    UNION ALL
    SELECT s.first_id, howdah.member_id(s.first_id, s.jobs) FROM howdah.workflow_spawned AS s
    WHERE s.workflow_id = p_node.workflow_id AND s.node = p_node.node
$$;
COMMENT ON FUNCTION howdah.node_ranges IS 'The ids of the jobs of a node, as ranges: its own, and those that these have spawned. Internal.';
REVOKE ALL ON FUNCTION howdah.node_ranges FROM PUBLIC;
