CREATE OR REPLACE FUNCTION howdah.insert_members(
    p_workflow_id uuid,
    p_nodes int[],
    p_places int[],
    p_data jsonb[],
    p_flow_keys text[] DEFAULT NULL
) RETURNS SETOF varchar
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(p_data, 'the data of a job');
    END IF;
    RETURN QUERY
    WITH node AS MATERIALIZED (
        SELECT
            n.node, n.first_id, n.job_type, n.inputs IS NOT NULL AS has_inputs, o.meta, o.cost, o.flow_key, job.*
        FROM howdah.workflow_nodes AS n
        CROSS JOIN LATERAL jsonb_populate_record(NULL::howdah.node_options, coalesce(n.options, '{}')) AS o
        CROSS JOIN LATERAL howdah.with_type_defaults(
            n.job_type, o.priority,
            -- A parent of an open node may run again, and the node waits for its end, but its jobs do not.
            CASE WHEN n.state = 'waiting' AND n.waits > 0 THEN 'infinity' ELSE coalesce(o.run_at, howdah.clock() + o.delay, howdah.clock()) END,
            NULL, o.max_attempts, o.timeout, o.expires_at, o.expires_in, o.retry_policy
        ) AS job
        WHERE n.workflow_id = p_workflow_id AND n.node = ANY (ARRAY(SELECT DISTINCT asked.node FROM unnest(p_nodes) AS asked (node)))
    ), added AS (
        INSERT INTO howdah.live AS j (
            id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, order_key, timeout, expires_at, retry_policy, meta,
            workflow_id, flow_key, line, cost, node, place, inputs
        )
        SELECT
            howdah.member_id(n.first_id, item.place), n.job_type, coalesce(item.data, '{}'), n.priority, n.run_at, n.run_at, howdah.clock(),
            n.max_attempts, CASE WHEN n.ordered THEN flow.key END, n.timeout, nullif(n.expires_at, 'infinity'), n.retry_policy, n.meta,
            p_workflow_id, flow.key, howdah.line_of(flow.key, n.run_at), n.cost, n.node, item.place, nullif(n.has_inputs, false)
        FROM unnest(p_nodes, p_places, p_data, p_flow_keys) AS item (node, place, data, flow_key)
        JOIN node AS n ON n.node = item.node
        CROSS JOIN LATERAL (SELECT howdah.flow_key_of(n.keyed, n.per, item.data, coalesce(item.flow_key, n.flow_key)) AS key) AS flow
        RETURNING j.job_type, j.run_at, j.flow_key
    )
    SELECT DISTINCT a.job_type FROM added AS a WHERE a.run_at <= howdah.clock() + interval '2 seconds';
END
$$;
COMMENT ON FUNCTION howdah.insert_members IS
    'Adds jobs at places of nodes. They wait if their node does. Returns the types of which jobs are due soon. It counts nothing. Internal.';
REVOKE ALL ON FUNCTION howdah.insert_members FROM PUBLIC;
