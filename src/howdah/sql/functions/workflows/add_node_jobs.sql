CREATE OR REPLACE FUNCTION howdah.add_node_jobs(
    p_workflow_id uuid,
    p_nodes int[],
    p_places int[],
    p_data jsonb[],
    p_flow_keys text[] DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_types varchar[];
    v_wrong int;
    v_job_type varchar;
    v_jobs int;
BEGIN
    PERFORM howdah.check_unstarted(p_workflow_id);
    IF EXISTS (SELECT FROM unnest(p_places) AS i (place) WHERE i.place < 0) THEN
        RAISE EXCEPTION 'the first place of a node is 0' USING ERRCODE = 'JQ001';
    END IF;
    IF p_flow_keys IS NOT NULL THEN
        PERFORM howdah.check_keys(array_remove(p_flow_keys, NULL), 'flow key');
        PERFORM howdah.use_keys(ARRAY(
            SELECT DISTINCT n.job_type FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = ANY (p_nodes)
        ));
    END IF;
    SELECT asked.node INTO v_wrong FROM (SELECT DISTINCT i.node FROM unnest(p_nodes) AS i (node)) AS asked
    LEFT JOIN howdah.workflow_nodes AS n ON n.workflow_id = p_workflow_id AND n.node = asked.node
    WHERE n.kind IS NULL OR n.kind NOT IN ('job', 'group') LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the workflow % has no node % with jobs', p_workflow_id, v_wrong USING ERRCODE = 'JQ001';
    END IF;
    -- Jobs that wait for others become due when those have ended: these are not refused.
    FOR v_job_type, v_jobs IN
        SELECT n.job_type, count(*) FROM unnest(p_nodes) AS i (node)
        JOIN howdah.workflow_nodes AS n ON n.workflow_id = p_workflow_id AND n.node = i.node AND n.waits = 0
        JOIN howdah.types AS t ON t.job_type = n.job_type AND coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL
        GROUP BY n.job_type ORDER BY n.job_type
    LOOP
        PERFORM howdah.make_room(v_job_type, v_jobs);
    END LOOP;
    v_types := ARRAY(SELECT howdah.insert_members(p_workflow_id, p_nodes, p_places, p_data, p_flow_keys));
    INSERT INTO howdah.workflow_counts AS c (workflow_id, node, stripe, remaining)
    SELECT p_workflow_id, item.node, howdah.stripe_of(item.place), count(*) FROM unnest(p_nodes, p_places) AS item (node, place) GROUP BY 2, 3
    ON CONFLICT (workflow_id, node, stripe) DO UPDATE SET remaining = c.remaining + excluded.remaining;
    UPDATE howdah.workflow_nodes AS n SET jobs = n.jobs + item.jobs
    FROM (SELECT i.node, count(*)::int AS jobs FROM unnest(p_nodes) AS i (node) GROUP BY i.node) AS item
    WHERE n.workflow_id = p_workflow_id AND n.node = item.node;
    -- The transaction has not ended: a worker that is notified finds them when it has.
    PERFORM howdah.notify_workers(v_types);
    RETURN cardinality(p_nodes);
END
$$;
COMMENT ON FUNCTION howdah.add_node_jobs IS
    'Adds jobs to nodes of a workflow that has not started: at each place of its node, from 0 on and without gaps, the data of one job. A node of the kind job has one.'
    ' Where it waits for no other, refuses more jobs than the bound of its type allows (SQLSTATE JQ022).';
REVOKE ALL ON FUNCTION howdah.add_node_jobs FROM PUBLIC;
