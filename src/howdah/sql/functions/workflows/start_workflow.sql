CREATE OR REPLACE FUNCTION howdah.start_workflow(p_workflow_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_wrong record;
    v_leaves int[];
    v_workflow howdah.workflows;
BEGIN
    PERFORM howdah.check_unstarted(p_workflow_id);
    SELECT e.parent, e.child INTO v_wrong FROM howdah.workflow_edges AS e
    WHERE e.workflow_id = p_workflow_id
        AND NOT EXISTS (SELECT FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = e.parent)
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'node % waits for node %, which does not exist', v_wrong.child, v_wrong.parent USING ERRCODE = 'JQ001';
    END IF;
    SELECT n.name, n.kind, n.jobs INTO v_wrong FROM howdah.workflow_nodes AS n
    WHERE n.workflow_id = p_workflow_id AND n.kind = 'job' AND n.jobs <> 1 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'node % is one job, and % were added to it', v_wrong.name, v_wrong.jobs USING ERRCODE = 'JQ001', HINT = 'Use the kind group for several.';
    END IF;
    -- Each place is there once: so there is a gap if one is behind the number of jobs.
    SELECT n.name, j.place INTO v_wrong FROM howdah.workflow_nodes AS n CROSS JOIN LATERAL (
        SELECT l.place FROM howdah.live AS l
        WHERE l.id >= howdah.member_id(n.first_id, n.jobs) AND l.id <= howdah.member_id(n.first_id, 2147483647)
            AND l.workflow_id = n.workflow_id AND l.node = n.node
        ORDER BY l.id LIMIT 1
    ) AS j
    WHERE n.workflow_id = p_workflow_id AND n.jobs > 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'node % has a job at place %, and none at a place before it', v_wrong.name, v_wrong.place USING
            ERRCODE = 'JQ001', HINT = 'The places of the jobs of a node are 0, 1, 2 and so on.';
    END IF;
    IF EXISTS (SELECT FROM howdah.workflow_edges AS e WHERE e.workflow_id = p_workflow_id AND e.parent > e.child) THEN
        PERFORM howdah.check_loops(p_workflow_id);
    END IF;
    v_leaves := ARRAY(
        SELECT n.node FROM howdah.workflow_nodes AS n
        WHERE n.workflow_id = p_workflow_id AND n.node > 0
            AND NOT EXISTS (SELECT FROM howdah.workflow_edges AS e WHERE e.workflow_id = p_workflow_id AND e.parent = n.node)
        ORDER BY n.node
    );
    INSERT INTO howdah.workflow_edges (workflow_id, parent, child) SELECT p_workflow_id, l.node, 0 FROM unnest(v_leaves) AS l (node);
    -- There are such sums if a job has ended already.
    INSERT INTO howdah.workflow_counts AS c (workflow_id, node, stripe, remaining)
    SELECT p_workflow_id, 0, 0, coalesce(sum(n.jobs), 0) FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id
    ON CONFLICT (workflow_id, node, stripe) DO UPDATE SET remaining = c.remaining + excluded.remaining;
    UPDATE howdah.workflow_nodes AS n SET
        waits = CASE WHEN n.node = 0 THEN cardinality(v_leaves) ELSE n.waits END,
        open_stripes = coalesce(c.stripes, 0),
        state = CASE WHEN n.waits > 0 OR n.node = 0 THEN 'waiting' WHEN n.kind <> 'map' AND n.jobs = 0 THEN 'ended' ELSE 'open' END,
        outcome = CASE WHEN n.waits = 0 AND n.node > 0 AND n.kind <> 'map' AND n.jobs = 0 THEN 'completed' END,
        step = CASE WHEN n.node = 0 AND v_leaves = '{}' THEN 'pass' WHEN n.waits = 0 AND n.node > 0 AND n.kind <> 'map' AND n.jobs = 0 THEN 'pass' END,
        opened_at = CASE WHEN n.waits = 0 AND n.node > 0 THEN howdah.clock() END
    FROM howdah.workflow_nodes AS self
    LEFT JOIN (
        SELECT c.node, count(*)::int AS stripes FROM howdah.workflow_counts AS c WHERE c.workflow_id = p_workflow_id AND c.node > 0 GROUP BY c.node
    ) AS c ON c.node = self.node
    WHERE self.workflow_id = p_workflow_id AND n.workflow_id = p_workflow_id AND n.node = self.node;
    -- A node of another kind than map has its items from a parent.
    SELECT n.name INTO v_wrong FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.kind = 'map' AND n.waits = 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the map % waits for no node that gives its items', v_wrong.name USING ERRCODE = 'JQ001';
    END IF;
    UPDATE howdah.workflows AS w SET
        started_at = howdah.clock(), result_node = CASE WHEN cardinality(v_leaves) = 1 THEN v_leaves[1] END
    WHERE w.id = p_workflow_id
    RETURNING w.* INTO v_workflow;
    PERFORM howdah.note_workflow(v_workflow);
    IF EXISTS (SELECT FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.step IS NOT NULL) THEN
        PERFORM howdah.advance_workflow(p_workflow_id, 1000);
        PERFORM howdah.notify_advance(p_workflow_id);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.start_workflow IS
    'The workflow has all of its nodes and jobs, and begins when the transaction commits. Refuses a loop, and names it (SQLSTATE JQ001).';
REVOKE ALL ON FUNCTION howdah.start_workflow FROM PUBLIC;
