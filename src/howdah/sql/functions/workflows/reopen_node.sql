CREATE OR REPLACE FUNCTION howdah.reopen_node(p_node howdah.workflow_nodes, p_again boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_id uuid := p_node.workflow_id;
    -- A map that runs again may get other items, and one that ended before all of its jobs were added lacks some. Its earlier jobs are no longer
    -- its own.
    v_expands boolean := p_node.kind = 'map' AND (p_again OR p_node.jobs = 0 OR p_node.expanded_to IS NULL OR p_node.error IS NOT NULL);
    v_ids uuid[];
    v_before record;
    v_after record;
    v_gone int;
BEGIN
    IF v_expands OR p_again THEN
        -- Its jobs spawn others when they run again.
        DELETE FROM howdah.workflow_spawned AS s WHERE s.workflow_id = v_id AND s.node = p_node.node;
    END IF;
    IF v_expands THEN
        p_node.jobs := 0;
    ELSE
        SELECT array_agg(j.id) INTO v_ids FROM howdah.node_ranges(p_node) AS r CROSS JOIN LATERAL (
            SELECT a.id FROM howdah.archive AS a
            WHERE a.id >= r.first_id AND a.id < r.end_id AND a.workflow_id = v_id AND (p_again OR a.status <> 'completed')
        ) AS j;
        PERFORM howdah.retry(v_ids) WHERE v_ids IS NOT NULL;
        UPDATE howdah.live AS j SET
            node = p_node.node,
            place = CASE
                WHEN j.parent_id IS NULL
                THEN (('x' || right(j.id::text, 8))::bit(32)::int - ('x' || right(p_node.first_id::text, 8))::bit(32)::int)
                ELSE -1
            END,
            inputs = CASE WHEN j.parent_id IS NULL AND p_node.inputs IS NOT NULL THEN true END,
            run_at = 'infinity', first_due_at = 'infinity', line = howdah.line_of(j.flow_key, 'infinity'),
            own_write = NOT j.own_write
        WHERE j.id = ANY (ARRAY(
            SELECT l.id FROM howdah.node_ranges(p_node) AS r CROSS JOIN LATERAL (
                SELECT m.id FROM howdah.live AS m WHERE m.id >= r.first_id AND m.id < r.end_id AND m.workflow_id = v_id
            ) AS l
        ));
    END IF;
    -- Of a node that was being skipped, jobs ended just now, or are retried above. The sums of the whole need these changes, too.
    PERFORM howdah.fold_workflow(v_id);
    -- Counted again: some may have been retried by themselves, or deleted.
    SELECT
        coalesce(sum(c.remaining), 0) AS remaining, coalesce(sum(c.completed), 0) AS completed, coalesce(sum(c.failed), 0) AS failed,
        coalesce(sum(c.cancelled), 0) AS cancelled
    INTO v_before FROM howdah.workflow_counts AS c WHERE c.workflow_id = v_id AND c.node = p_node.node;
    DELETE FROM howdah.workflow_counts AS c WHERE c.workflow_id = v_id AND c.node = p_node.node;
    WITH there AS (
        SELECT howdah.stripe_of(l.place) AS stripe, 'remaining' AS status FROM howdah.node_ranges(p_node) AS r CROSS JOIN LATERAL (
            SELECT m.place FROM howdah.live AS m WHERE m.id >= r.first_id AND m.id < r.end_id AND m.workflow_id = v_id
        ) AS l
        UNION ALL
        SELECT 0, j.status FROM howdah.node_ranges(p_node) AS r CROSS JOIN LATERAL (
            SELECT a.status FROM howdah.archive AS a WHERE a.id >= r.first_id AND a.id < r.end_id AND a.workflow_id = v_id
        ) AS j
    )
    INSERT INTO howdah.workflow_counts (workflow_id, node, stripe, remaining, completed, failed, cancelled)
    SELECT
        v_id, p_node.node, t.stripe, count(*) FILTER (WHERE t.status = 'remaining'), count(*) FILTER (WHERE t.status = 'completed'),
        count(*) FILTER (WHERE t.status = 'failed'), count(*) FILTER (WHERE t.status = 'cancelled')
    FROM there AS t GROUP BY t.stripe;
    -- Those that are gone cannot run again. They stay completed, or are cancelled: the node is not completed without them.
    SELECT coalesce(sum(r.jobs), 0) - (
        SELECT coalesce(sum(c.remaining + c.completed + c.failed + c.cancelled), 0) FROM howdah.workflow_counts AS c
        WHERE c.workflow_id = v_id AND c.node = p_node.node
    ) INTO v_gone FROM (
        SELECT p_node.jobs AS jobs
        UNION ALL
        SELECT s.jobs FROM howdah.workflow_spawned AS s WHERE s.workflow_id = v_id AND s.node = p_node.node
    ) AS r;
    IF v_gone > 0 THEN
        INSERT INTO howdah.workflow_counts AS c (workflow_id, node, stripe, completed, cancelled)
        SELECT v_id, p_node.node, 0, k.kept, v_gone - k.kept FROM (
            SELECT CASE WHEN p_again THEN 0 ELSE least(v_gone, greatest(v_before.completed - coalesce(sum(f.completed), 0), 0)) END AS kept
            FROM howdah.workflow_counts AS f WHERE f.workflow_id = v_id AND f.node = p_node.node
        ) AS k
        ON CONFLICT (workflow_id, node, stripe) DO UPDATE SET completed = c.completed + excluded.completed, cancelled = c.cancelled + excluded.cancelled;
    END IF;
    SELECT
        coalesce(sum(c.remaining), 0) AS remaining, coalesce(sum(c.completed), 0) AS completed, coalesce(sum(c.failed), 0) AS failed,
        coalesce(sum(c.cancelled), 0) AS cancelled, count(*) FILTER (WHERE c.remaining > 0) AS open
    INTO v_after FROM howdah.workflow_counts AS c WHERE c.workflow_id = v_id AND c.node = p_node.node;
    UPDATE howdah.workflow_counts AS c SET
        remaining = c.remaining + v_after.remaining - v_before.remaining, completed = c.completed + v_after.completed - v_before.completed,
        failed = c.failed + v_after.failed - v_before.failed, cancelled = c.cancelled + v_after.cancelled - v_before.cancelled
    WHERE c.workflow_id = v_id AND c.node = 0 AND c.stripe = 0;
    UPDATE howdah.workflow_nodes AS n SET
        state = 'waiting', outcome = NULL, error = NULL, opened_at = NULL, ended_at = NULL, step = NULL, step_from = 0,
        jobs = p_node.jobs, expanded_to = CASE WHEN NOT v_expands THEN n.expanded_to END, open_stripes = v_after.open
    WHERE n.workflow_id = v_id AND n.node = p_node.node;
END
$$;
COMMENT ON FUNCTION howdah.reopen_node IS
    'Lets a node that has ended, or is being skipped, wait again: its jobs that have not completed, or all of them (p_again). Part of retry_workflow. Internal.';
REVOKE ALL ON FUNCTION howdah.reopen_node FROM PUBLIC;
