CREATE OR REPLACE FUNCTION howdah.check_loops(p_workflow_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_left int[] := ARRAY(SELECT DISTINCT e.child FROM howdah.workflow_edges AS e WHERE e.workflow_id = p_workflow_id);
    v_next int[];
    v_path int[];
    v_node int;
BEGIN
    -- In each round the nodes go that wait for none of those that are left. What remains has loops.
    LOOP
        v_next := ARRAY(
            SELECT DISTINCT e.child FROM howdah.workflow_edges AS e
            WHERE e.workflow_id = p_workflow_id AND e.parent = ANY (v_left) AND e.child = ANY (v_left)
        );
        EXIT WHEN cardinality(v_next) = cardinality(v_left);
        v_left := v_next;
    END LOOP;
    IF v_left = '{}' THEN
        RETURN;
    END IF;
    v_node := v_left[1];
    WHILE v_node <> ALL (coalesce(v_path, '{}')) LOOP
        v_path := v_path || v_node;
        SELECT min(e.parent) INTO v_node FROM howdah.workflow_edges AS e
        WHERE e.workflow_id = p_workflow_id AND e.child = v_node AND e.parent = ANY (v_left);
    END LOOP;
    -- From child to parent: backwards, it reads as the jobs would run.
    v_path := v_path[array_position(v_path, v_node):];
    RAISE EXCEPTION 'the nodes wait for each other in a loop: % -> %', (
        SELECT string_agg(n.name, ' -> ' ORDER BY p.place DESC) FROM unnest(v_path) WITH ORDINALITY AS p (node, place)
        JOIN howdah.workflow_nodes AS n ON n.workflow_id = p_workflow_id AND n.node = p.node
    ), (SELECT n.name FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = v_path[cardinality(v_path)])
    USING ERRCODE = 'JQ001';
END
$$;
COMMENT ON FUNCTION howdah.check_loops IS 'Refuses a workflow whose nodes wait for each other in a loop, and names one. Internal.';
REVOKE ALL ON FUNCTION howdah.check_loops FROM PUBLIC;
