CREATE OR REPLACE FUNCTION howdah.add_nodes(
    p_workflow_id uuid,
    p_nodes int[],
    p_job_types varchar[],
    p_names text[] DEFAULT NULL,
    p_kinds text[] DEFAULT NULL,
    p_whens text[] DEFAULT NULL,
    p_options jsonb[] DEFAULT NULL,
    p_inputs jsonb[] DEFAULT NULL,
    p_items jsonb[] DEFAULT NULL,
    p_templates jsonb[] DEFAULT NULL,
    p_parents int[] DEFAULT NULL,
    p_children int[] DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_wrong record;
BEGIN
    PERFORM howdah.check_unstarted(p_workflow_id);
    PERFORM howdah.check_job_type(t.job_type) FROM (SELECT DISTINCT named.job_type FROM unnest(p_job_types) AS named (job_type)) AS t;
    PERFORM howdah.check_node_options(o.options) FROM unnest(p_options) AS o (options) WHERE o.options IS NOT NULL;
    PERFORM howdah.check_inputs(i.inputs) FROM unnest(p_inputs) AS i (inputs) WHERE i.inputs IS NOT NULL;
    -- Workers read these, whatever is in them.
    PERFORM howdah.check_size(given.parts, given.what) FROM (VALUES
        (p_inputs, 'the inputs of a node'), (p_items, 'the items of a map'), (p_templates, 'the arguments of a map')
    ) AS given (parts, what) WHERE pg_column_size(given.parts) > 65536;
    IF EXISTS (SELECT FROM unnest(p_nodes) AS n (node) WHERE n.node IS NULL OR n.node <= 0) OR p_nodes IS NULL THEN
        RAISE EXCEPTION 'the number of a node is 1 or more' USING ERRCODE = 'JQ001';
    END IF;
    SELECT e.* INTO v_wrong FROM unnest(p_parents, p_children) AS e (parent, child)
    WHERE e.parent = e.child OR least(e.parent, e.child) <= 0 OR num_nulls(e.parent, e.child) > 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'node % cannot wait for node %', v_wrong.child, v_wrong.parent USING ERRCODE = 'JQ001';
    END IF;
    SELECT n.node INTO v_wrong FROM unnest(p_nodes, p_kinds, p_items) AS n (node, kind, items)
    WHERE n.kind = 'end' OR (n.kind IS NOT DISTINCT FROM 'map') <> (n.items IS NOT NULL) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'node % is a job or a group without items, or a map with items', v_wrong.node USING ERRCODE = 'JQ001';
    END IF;
    SELECT n.node INTO v_wrong FROM unnest(p_nodes, p_items) AS n (node, items)
    WHERE n.items IS NOT NULL AND NOT (
        howdah.is_source(n.items) AND jsonb_typeof(n.items -> 'parameter') IS NOT DISTINCT FROM 'string'
        AND EXISTS (SELECT FROM unnest(p_parents, p_children) AS e (parent, child) WHERE e.child = n.node AND e.parent::text = n.items ->> 'node')
    ) LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the items of map % are not {"parameter", "node", "path"} with a node for which it waits', v_wrong.node USING ERRCODE = 'JQ001';
    END IF;
    INSERT INTO howdah.workflow_nodes (workflow_id, node, name, kind, when_, job_type, first_id, options, inputs, items, template, waits)
    SELECT
        p_workflow_id, n.node, coalesce(n.name, left(n.job_type, 80) || ' ' || n.node), coalesce(n.kind, 'job'), coalesce(n.when_, 'success'), n.job_type,
        CASE WHEN n.kind = 'map' THEN NULL ELSE howdah.first_member_id() END, n.options, n.inputs, n.items, n.template, coalesce(e.waits, 0)
    FROM unnest(p_nodes, p_names, p_kinds, p_whens, p_job_types, p_options, p_inputs, p_items, p_templates)
        AS n (node, name, kind, when_, job_type, options, inputs, items, template)
    LEFT JOIN (
        SELECT c.child, count(DISTINCT c.parent)::int AS waits FROM unnest(p_parents, p_children) AS c (parent, child) GROUP BY c.child
    ) AS e ON e.child = n.node;
    INSERT INTO howdah.workflow_edges (workflow_id, parent, child)
    SELECT DISTINCT p_workflow_id, e.parent, e.child FROM unnest(p_parents, p_children) AS e (parent, child);
    -- An edge belongs to the call that adds its child: its jobs wait from the beginning.
    IF EXISTS (SELECT FROM unnest(p_children) AS c (child) WHERE c.child <> ALL (p_nodes)) THEN
        RAISE EXCEPTION 'an edge is given together with its child' USING ERRCODE = 'JQ001';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.add_nodes IS
    'Adds nodes to a workflow that has not started, and the edges that end at them: p_children wait for p_parents, pairwise. p_kinds: job, group or map;'
    ' p_whens: success, always or failure; p_options: an object of options of enqueue (priority, delay, run_at, max_attempts, timeout, expires_at,'
    ' expires_in, retry_policy, meta, cost). p_inputs: a list of {"parameter", "list", "sources": [{"node", "path"}]}. For a map, p_items is {"parameter", "node", "path"}.';
REVOKE ALL ON FUNCTION howdah.add_nodes FROM PUBLIC;
