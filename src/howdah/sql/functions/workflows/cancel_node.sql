CREATE OR REPLACE FUNCTION howdah.cancel_node(p_node howdah.workflow_nodes, p_limit int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_id uuid := p_node.workflow_id;
    v_reason text := coalesce(p_node.error, (SELECT coalesce(w.cancel_reason, 'the workflow was cancelled') FROM howdah.workflows AS w WHERE w.id = v_id));
    v_ids uuid[];
    v_is_over boolean;
    v_is_empty boolean;
BEGIN
    SELECT array_agg(c.id) INTO v_ids FROM (
        SELECT j.id FROM howdah.node_ranges(p_node) AS r
        CROSS JOIN LATERAL (
            SELECT l.id FROM howdah.live AS l
            WHERE l.id >= r.first_id AND l.id < r.end_id AND l.workflow_id = v_id AND l.node = p_node.node AND l.cancel_requested_at IS NULL
            ORDER BY l.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        ) AS j
        LIMIT p_limit
    ) AS c;
    PERFORM howdah.cancel(v_ids, v_reason) WHERE v_ids IS NOT NULL;
    v_is_over := coalesce(cardinality(v_ids), 0) < p_limit AND NOT EXISTS (
        SELECT FROM howdah.node_ranges(p_node) AS r
        CROSS JOIN LATERAL (
            SELECT FROM howdah.live AS l
            WHERE l.id >= r.first_id AND l.id < r.end_id AND l.workflow_id = v_id AND l.node = p_node.node AND l.cancel_requested_at IS NULL
            LIMIT 1
        ) AS j
    );
    UPDATE howdah.workflow_nodes AS n SET
        step = CASE WHEN v_is_over THEN NULL ELSE n.step END,
        -- A map that was not expanded, or not to its end, gets no more jobs: so it ends with this outcome. Its expanded_to stays NULL, and a retry
        -- begins its expansion anew.
        outcome = coalesce(n.outcome, CASE WHEN v_is_over AND (n.state = 'waiting' OR n.kind = 'map' AND n.expanded_to IS NULL) THEN 'cancelled' END)
    WHERE n.workflow_id = v_id AND n.node = p_node.node;
    IF v_is_over THEN
        v_is_empty := NOT EXISTS (
            SELECT FROM howdah.node_ranges(p_node) AS r
            JOIN howdah.live AS l ON l.id >= r.first_id AND l.id < r.end_id AND l.workflow_id = v_id AND l.node = p_node.node
        );
        PERFORM howdah.fold_workflow(v_id);
        IF v_is_empty AND NOT EXISTS (SELECT FROM howdah.workflow_deltas AS d WHERE d.workflow_id = v_id) THEN
            -- Jobs that went without being counted, as after a restore of a part of the data.
            INSERT INTO howdah.workflow_deltas (workflow_id, node, stripe, cancelled)
            SELECT v_id, c.node, c.stripe, c.remaining FROM howdah.workflow_counts AS c
            WHERE c.workflow_id = v_id AND c.node = p_node.node AND c.remaining > 0;
            PERFORM howdah.fold_workflow(v_id) WHERE FOUND;
        END IF;
        PERFORM howdah.end_nodes(v_id, ARRAY[p_node.node]);
    END IF;
    RETURN CASE WHEN NOT v_is_over AND v_ids IS NULL THEN NULL ELSE coalesce(cardinality(v_ids), 0) END;
END
$$;
COMMENT ON FUNCTION howdah.cancel_node IS
    'Cancels the next p_limit jobs of a node that is not needed, or whose workflow was cancelled. Part of advance_workflow. NULL: the rest is locked. Internal.';
REVOKE ALL ON FUNCTION howdah.cancel_node FROM PUBLIC;
