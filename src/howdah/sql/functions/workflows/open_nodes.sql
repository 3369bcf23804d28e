CREATE OR REPLACE FUNCTION howdah.open_nodes(p_workflow_id uuid, p_nodes int[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_is_cancelled boolean;
    v_all boolean;
BEGIN
    SELECT w.cancel_requested_at IS NOT NULL, w.cancel_all INTO v_is_cancelled, v_all FROM howdah.workflows AS w WHERE w.id = p_workflow_id;
    UPDATE howdah.workflow_nodes AS n SET
        state = CASE WHEN d.runs AND NOT d.is_empty THEN 'open' WHEN d.is_empty THEN 'ended' ELSE 'waiting' END,
        step = CASE
            WHEN d.is_empty THEN 'pass' WHEN d.runs AND d.expands THEN 'expand' WHEN d.runs THEN 'release'
            WHEN d.cancelled THEN 'cancel' ELSE 'skip'
        END,
        step_from = 0,
        outcome = CASE
            -- It has jobs that have ended if it runs again: see reopen_node.
            WHEN d.runs AND d.is_empty THEN (
                SELECT CASE WHEN sum(c.failed) > 0 THEN 'failed' WHEN sum(c.cancelled) > 0 THEN 'cancelled' ELSE 'completed' END
                FROM howdah.workflow_counts AS c WHERE c.workflow_id = p_workflow_id AND c.node = n.node
            )
            WHEN d.runs THEN NULL WHEN d.cancelled THEN 'cancelled' ELSE 'skipped'
        END,
        first_id = CASE WHEN d.expands AND d.runs THEN howdah.first_member_id() ELSE n.first_id END,
        opened_at = CASE WHEN d.runs THEN howdah.clock() END,
        ended_at = CASE WHEN d.is_empty THEN howdah.clock() END,
        error = CASE WHEN NOT d.runs AND NOT d.cancelled THEN 'not needed: ' || coalesce((
            SELECT p.name || ' ' || CASE p.outcome WHEN 'skipped' THEN 'was not needed' WHEN 'completed' THEN 'did not fail' WHEN 'cancelled' THEN 'was cancelled' ELSE p.outcome END
            FROM howdah.workflow_edges AS e JOIN howdah.workflow_nodes AS p ON p.workflow_id = p_workflow_id AND p.node = e.parent
            WHERE e.workflow_id = p_workflow_id AND e.child = n.node AND (n.when_ = 'failure') = (p.outcome = 'completed')
            ORDER BY p.outcome = 'skipped', p.node LIMIT 1
        ), 'no parent failed') END
    FROM (
        SELECT
            s.node, s.runs, NOT s.runs AND v_is_cancelled AS cancelled,
            s.open_stripes = 0 AND NOT (s.runs AND s.expands) AS is_empty, s.expands
        FROM (
            SELECT
                m.node, m.open_stripes, m.kind = 'map' AND m.expanded_to IS NULL AS expands,
                (m.when_ = 'always' AND NOT v_all) OR (NOT v_is_cancelled AND CASE m.when_
                    WHEN 'success' THEN m.failed_parents = 0 AND m.skipped_parents = 0 ELSE m.failed_parents > 0
                END) AS runs
            FROM howdah.workflow_nodes AS m
            WHERE m.workflow_id = p_workflow_id AND m.node = ANY (p_nodes) AND m.node > 0 AND m.waits = 0 AND m.state = 'waiting'
        ) AS s
    ) AS d
    WHERE n.workflow_id = p_workflow_id AND n.node = d.node;
END
$$;
COMMENT ON FUNCTION howdah.open_nodes IS
    'Decides about those of these nodes, which the caller has locked, whose parents have all ended: they run, or they are not needed. Internal.';
REVOKE ALL ON FUNCTION howdah.open_nodes FROM PUBLIC;
