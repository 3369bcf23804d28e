CREATE OR REPLACE FUNCTION howdah.end_nodes(p_workflow_id uuid, p_nodes int[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
BEGIN
    WITH done AS MATERIALIZED (
        SELECT
            n.node,
            EXISTS (
                SELECT FROM howdah.workflow_deltas AS d WHERE d.workflow_id = p_workflow_id AND d.node = n.node
                    AND d.added - d.completed - d.failed - d.cancelled > 0
            ) AS has_more
        FROM howdah.workflow_nodes AS n
        WHERE n.workflow_id = p_workflow_id AND n.node = ANY (p_nodes) AND n.node > 0 AND n.open_stripes = 0 AND n.state <> 'ended'
            AND (n.kind <> 'map' OR n.expanded_to IS NOT NULL OR n.outcome IS NOT NULL)
    )
    UPDATE howdah.workflow_nodes AS n SET
        state = CASE WHEN done.has_more THEN n.state ELSE 'ended' END,
        -- One whose jobs were cancelled while it waited: its parents come first, also for its children.
        step = CASE WHEN done.has_more THEN 'count' WHEN n.waits = 0 THEN 'pass' END,
        step_from = 0,
        ended_at = CASE WHEN NOT done.has_more THEN howdah.clock() END,
        outcome = CASE WHEN NOT done.has_more THEN coalesce(n.outcome, CASE
            WHEN n.error IS NOT NULL OR s.failed > 0 THEN 'failed' WHEN s.cancelled > 0 THEN 'cancelled' ELSE 'completed'
        END) END
    FROM done CROSS JOIN LATERAL (
        SELECT coalesce(sum(c.failed), 0) AS failed, coalesce(sum(c.cancelled), 0) AS cancelled FROM howdah.workflow_counts AS c
        WHERE c.workflow_id = p_workflow_id AND c.node = done.node
    ) AS s
    WHERE n.workflow_id = p_workflow_id AND n.node = done.node;
END
$$;
COMMENT ON FUNCTION howdah.end_nodes IS
    'Ends those of these nodes, which the caller has locked, whose jobs have all ended. A node to which a delta adds jobs is looked at again. Internal.';
REVOKE ALL ON FUNCTION howdah.end_nodes FROM PUBLIC;
