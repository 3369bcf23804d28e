-- A call that comes after the same call of another worker changes nothing: p_from is the fence.
CREATE OR REPLACE FUNCTION howdah.expand_map(
    p_workflow_id uuid,
    p_node int,
    p_from int,
    p_data jsonb[],
    p_last boolean,
    p_flow_keys text[] DEFAULT NULL
) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
SET enable_seqscan = off
AS $$
DECLARE
    v_node howdah.workflow_nodes;
    v_places int[] := ARRAY(SELECT p_from + i.no - 1 FROM generate_series(1, cardinality(p_data)) AS i (no));
    v_nodes int[] := array_fill(p_node, ARRAY[cardinality(p_data)]);
    v_types varchar[];
BEGIN
    SELECT n.* INTO v_node FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = p_node FOR UPDATE SKIP LOCKED;
    IF NOT FOUND AND EXISTS (SELECT FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = p_node) THEN
        RETURN -1;
    END IF;
    IF v_node.step IS DISTINCT FROM 'expand' THEN
        -- It was expanded, or the workflow was cancelled.
        RETURN NULL;
    ELSIF v_node.jobs <> p_from THEN
        RETURN v_node.jobs;
    END IF;
    IF p_flow_keys IS NOT NULL THEN
        PERFORM howdah.check_keys(array_remove(p_flow_keys, NULL), 'flow key');
        PERFORM howdah.use_keys(ARRAY[v_node.job_type]);
    END IF;
    IF p_data <> '{}' THEN
        v_types := ARRAY(SELECT howdah.insert_members(p_workflow_id, v_nodes, v_places, p_data, p_flow_keys));
        INSERT INTO howdah.workflow_deltas (workflow_id, node, stripe, added)
        SELECT p_workflow_id, p_node, howdah.stripe_of(p.place), count(*) FROM unnest(v_places) AS p (place) GROUP BY 3;
        PERFORM howdah.notify_workers(v_types);
    END IF;
    UPDATE howdah.workflow_nodes AS n SET
        jobs = n.jobs + cardinality(p_data),
        expanded_to = CASE WHEN p_last THEN n.jobs + cardinality(p_data) END,
        step = CASE WHEN NOT p_last THEN n.step END
    WHERE n.workflow_id = p_workflow_id AND n.node = p_node;
    IF p_last THEN
        PERFORM howdah.end_nodes(p_workflow_id, ARRAY[p_node]);
        PERFORM howdah.try_advance(p_workflow_id, 100);
        PERFORM howdah.notify_advance(p_workflow_id);
    END IF;
    RETURN p_from + cardinality(p_data);
END
$$;
COMMENT ON FUNCTION howdah.expand_map IS
    'Adds the next jobs of a map, from the place p_from on. p_last: they are the last ones. Returns how many it has now, which is where to go on; NULL if nothing'
    ' is to be added to it any more. Any number of workers may expand the same map: each job is added once. -1: another'
    ' transaction has the map locked, and nothing was added.';
REVOKE ALL ON FUNCTION howdah.expand_map FROM PUBLIC;
