-- All transactions lock stripes in the order of node and number, and then nodes. A stripe at zero takes one from its node's open_stripes; a node
-- without open stripes has ended, unless a committed delta adds jobs to it: a transaction that adds jobs to a node holds its row until then.
CREATE OR REPLACE FUNCTION howdah.fold_workflow(p_workflow_id uuid, p_limit int DEFAULT 100000) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_nodes int[];
    v_stripes int[];
    v_added int[];
    v_completed int[];
    v_failed int[];
    v_cancelled int[];
    v_changed int[];
    v_changes int[];
BEGIN
    WITH taken AS (
        DELETE FROM howdah.workflow_deltas AS d
        WHERE d.workflow_id = p_workflow_id AND d.no = ANY (ARRAY(
            SELECT l.no FROM howdah.workflow_deltas AS l WHERE l.workflow_id = p_workflow_id ORDER BY l.no LIMIT p_limit FOR UPDATE SKIP LOCKED
        ))
        RETURNING d.node, d.stripe, d.added, d.completed, d.failed, d.cancelled
    ), whole AS (
        SELECT t.node, t.stripe, t.added, t.completed, t.failed, t.cancelled FROM taken AS t
        UNION ALL
        -- A stripe of the sums that other sessions seldom lock.
        SELECT 0, pg_backend_pid() % 16, t.added, t.completed, t.failed, t.cancelled FROM taken AS t
    ), summed AS (
        SELECT w.node, w.stripe, sum(w.added)::int AS added, sum(w.completed)::int AS completed, sum(w.failed)::int AS failed, sum(w.cancelled)::int AS cancelled
        FROM whole AS w GROUP BY w.node, w.stripe
    )
    SELECT
        array_agg(s.node ORDER BY s.node, s.stripe), array_agg(s.stripe ORDER BY s.node, s.stripe), array_agg(s.added ORDER BY s.node, s.stripe),
        array_agg(s.completed ORDER BY s.node, s.stripe), array_agg(s.failed ORDER BY s.node, s.stripe), array_agg(s.cancelled ORDER BY s.node, s.stripe)
    INTO v_nodes, v_stripes, v_added, v_completed, v_failed, v_cancelled
    FROM summed AS s;
    IF v_nodes IS NULL THEN
        RETURN false;
    END IF;
    WITH change AS MATERIALIZED (
        SELECT c.*, c.added - c.completed - c.failed - c.cancelled AS by
        FROM unnest(v_nodes, v_stripes, v_added, v_completed, v_failed, v_cancelled) AS c (node, stripe, added, completed, failed, cancelled)
        ORDER BY c.node, c.stripe
    ), counted AS (
        INSERT INTO howdah.workflow_counts AS c (workflow_id, node, stripe, remaining, completed, failed, cancelled)
        SELECT p_workflow_id, change.node, change.stripe, change.by, change.completed, change.failed, change.cancelled
        FROM change ORDER BY change.node, change.stripe
        ON CONFLICT (workflow_id, node, stripe) DO UPDATE SET
            remaining = c.remaining + excluded.remaining, completed = c.completed + excluded.completed,
            failed = c.failed + excluded.failed, cancelled = c.cancelled + excluded.cancelled
        RETURNING c.node, c.stripe, c.remaining
    )
    SELECT array_agg(n.node ORDER BY n.node), array_agg(n.change ORDER BY n.node) INTO v_changed, v_changes FROM (
        SELECT
            counted.node, (
                count(*) FILTER (WHERE counted.remaining > 0 AND counted.remaining - change.by <= 0)
                - count(*) FILTER (WHERE counted.remaining <= 0 AND counted.remaining - change.by > 0)
            )::int AS change
        FROM counted JOIN change ON change.node = counted.node AND change.stripe = counted.stripe
        WHERE counted.node > 0
        GROUP BY counted.node
    ) AS n
    WHERE n.change <> 0;
    IF v_changed IS NOT NULL THEN
        PERFORM FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.node = ANY (v_changed) ORDER BY n.node FOR UPDATE;
        UPDATE howdah.workflow_nodes AS n SET open_stripes = n.open_stripes + c.change
        FROM unnest(v_changed, v_changes) AS c (node, change)
        WHERE n.workflow_id = p_workflow_id AND n.node = c.node;
        PERFORM howdah.end_nodes(p_workflow_id, v_changed);
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.fold_workflow IS
    'Adds the deltas of a workflow to its counts, those that other transactions have locked excepted, and ends nodes whose jobs have all ended.'
    ' False: there were none. Internal.';
REVOKE ALL ON FUNCTION howdah.fold_workflow FROM PUBLIC;
