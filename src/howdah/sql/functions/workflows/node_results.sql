CREATE OR REPLACE FUNCTION howdah.node_results(p_workflow_id uuid, p_node int, p_from int DEFAULT 0, p_limit int DEFAULT 1000)
RETURNS TABLE (place int, id uuid, job_type varchar, status varchar, result jsonb)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_node howdah.workflow_nodes;
    v_first uuid;
    v_end uuid;
BEGIN
    SELECT * INTO v_node FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = p_node;
    IF NOT FOUND OR v_node.jobs <= p_from THEN
        RETURN;
    END IF;
    v_first := howdah.member_id(v_node.first_id, p_from);
    v_end := howdah.member_id(v_node.first_id, least(p_from + p_limit, v_node.jobs));
    RETURN QUERY
    WITH there AS MATERIALIZED (
        SELECT a.id, a.job_type, a.status, a.result FROM howdah.archive AS a
        WHERE a.id >= v_first AND a.id < v_end AND a.workflow_id = p_workflow_id
    )
    SELECT p.place, howdah.member_id(v_node.first_id, p.place), t.job_type, t.status, t.result
    FROM generate_series(p_from, least(p_from + p_limit, v_node.jobs) - 1) AS p (place)
    LEFT JOIN there AS t ON t.id = howdah.member_id(v_node.first_id, p.place)
    ORDER BY p.place;
END
$$;
COMMENT ON FUNCTION howdah.node_results IS
    'How the jobs of a node ended, and their results, in the order of their places, p_limit at most. status is NULL for a job that has not ended, or is not there any more.';
REVOKE ALL ON FUNCTION howdah.node_results FROM PUBLIC;
