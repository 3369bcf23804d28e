CREATE OR REPLACE FUNCTION howdah.retry_workflow(p_id uuid, p_node text DEFAULT NULL) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_workflow howdah.workflows;
    v_nodes int[];
    v_node howdah.workflow_nodes;
    v_busy text;
    v_maps int[];
    v_number int;
BEGIN
    SELECT w.* INTO v_workflow FROM howdah.workflows AS w WHERE w.id = p_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no workflow %', p_id USING ERRCODE = 'JQ024', HINT = 'It may have been pruned.';
    ELSIF v_workflow.finished_at IS NULL AND v_workflow.cancel_requested_at IS NOT NULL THEN
        RAISE EXCEPTION 'the workflow % is being cancelled', p_id USING ERRCODE = 'JQ005', HINT = 'Wait for its end.';
    END IF;
    PERFORM FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_id ORDER BY n.node FOR UPDATE;
    PERFORM howdah.fold_workflow(p_id);
    IF p_node IS NULL THEN
        -- A node that was skipped because of another one, which now runs again. One that was skipped because nothing failed stays so.
        v_nodes := ARRAY(
            WITH RECURSIVE broken AS (
                SELECT n.node, n.outcome FROM howdah.workflow_nodes AS n
                WHERE n.workflow_id = p_id AND n.node > 0 AND n.state = 'ended' AND n.outcome IN ('failed', 'cancelled')
                UNION
                SELECT n.node, n.outcome FROM broken AS b
                JOIN howdah.workflow_edges AS e ON e.workflow_id = p_id AND e.parent = b.node
                JOIN howdah.workflow_nodes AS n ON n.workflow_id = p_id AND n.node = e.child AND n.node > 0
            )
            SELECT n.node FROM broken AS b JOIN howdah.workflow_nodes AS n ON n.workflow_id = p_id AND n.node = b.node
            WHERE n.state = 'ended' AND n.outcome <> 'completed' OR n.step = 'skip' ORDER BY n.node
        );
    ELSE
        SELECT n.node INTO v_number FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_id AND n.name = p_node AND n.node > 0;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the workflow % has no node %', p_id, p_node USING ERRCODE = 'JQ024';
        END IF;
        v_nodes := ARRAY(
            WITH RECURSIVE downstream AS (
                SELECT v_number AS node
                UNION
                SELECT e.child FROM downstream AS d JOIN howdah.workflow_edges AS e ON e.workflow_id = p_id AND e.parent = d.node
            )
            SELECT d.node FROM downstream AS d WHERE d.node > 0 ORDER BY d.node
        );
        SELECT n.name INTO v_busy FROM howdah.workflow_nodes AS n
        WHERE n.workflow_id = p_id AND n.node = ANY (v_nodes) AND (n.state = 'open' OR n.step = 'skip') LIMIT 1;
        IF v_busy IS NULL THEN
            SELECT n.name INTO v_busy FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_id AND n.node = v_number AND n.state <> 'ended';
        END IF;
        IF v_busy IS NOT NULL THEN
            RAISE EXCEPTION 'node % has not ended', v_busy USING ERRCODE = 'JQ005', HINT = 'Wait for it, or cancel the workflow.';
        END IF;
        v_nodes := ARRAY(
            SELECT n.node FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_id AND n.node = ANY (v_nodes) AND n.state = 'ended' ORDER BY n.node
        );
    END IF;
    IF v_nodes = '{}' THEN
        RETURN 0;
    END IF;
    -- Maps whose items are the results of nodes that run again. One that has no job yet waits for the new results. One that has some can
    -- take the others neither from the old results, which go, nor from the new ones.
    v_maps := ARRAY(
        SELECT n.node FROM howdah.workflow_nodes AS n
        WHERE n.workflow_id = p_id AND n.state = 'open' AND n.step = 'expand' AND n.items ->> 'node' = ANY (v_nodes::text[]) ORDER BY n.node
    );
    SELECT n.name INTO v_busy FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_id AND n.node = ANY (v_maps) AND n.jobs > 0 LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the jobs of map % are being added', v_busy USING ERRCODE = 'JQ005', HINT = 'Try again in a moment, or cancel the workflow.';
    END IF;
    -- All that depends on them waits again: also the end of the workflow, behind nodes that have completed and stay as they are.
    UPDATE howdah.workflow_edges AS e SET passed = false
    WHERE e.workflow_id = p_id AND e.passed AND e.parent = ANY (ARRAY(
        WITH RECURSIVE downstream AS (
            SELECT n.node FROM unnest(v_nodes) AS n (node)
            UNION
            SELECT c.child FROM downstream AS d JOIN howdah.workflow_edges AS c ON c.workflow_id = p_id AND c.parent = d.node
        )
        SELECT d.node FROM downstream AS d
    ));
    UPDATE howdah.workflow_nodes AS n SET
        waits = e.waits, failed_parents = e.failed, skipped_parents = e.skipped,
        state = CASE WHEN n.node = 0 OR n.node = ANY (v_maps) THEN 'waiting' ELSE n.state END,
        opened_at = CASE WHEN n.node <> ALL (v_maps) THEN n.opened_at END,
        -- What has ended tells its children when its parents have ended again.
        step = CASE WHEN n.node > 0 AND n.node <> ALL (v_maps) AND NOT (n.step = 'pass' AND e.waits > 0) THEN n.step END
    FROM (
        SELECT
            c.child, count(*) FILTER (WHERE NOT c.passed)::int AS waits,
            count(*) FILTER (WHERE c.passed AND p.outcome IN ('failed', 'cancelled'))::int AS failed,
            count(*) FILTER (WHERE c.passed AND p.outcome = 'skipped')::int AS skipped
        FROM howdah.workflow_edges AS c JOIN howdah.workflow_nodes AS p ON p.workflow_id = p_id AND p.node = c.parent
        WHERE c.workflow_id = p_id GROUP BY c.child
    ) AS e
    WHERE n.workflow_id = p_id AND n.node = e.child;
    UPDATE howdah.workflows AS w SET
        status = 'running', finished_at = NULL, cancel_requested_at = NULL, cancel_reason = NULL, cancel_all = false, error = NULL,
        deadline_at = CASE WHEN w.deadline_at > howdah.clock() THEN w.deadline_at END,
        expires_at = howdah.clock() + (w.expires_at - w.created_at)
    WHERE w.id = p_id RETURNING w.* INTO v_workflow;
    FOR v_node IN
        SELECT n.* FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_id AND n.node = ANY (v_nodes) ORDER BY n.node
    LOOP
        PERFORM howdah.reopen_node(v_node, p_node IS NOT NULL);
    END LOOP;
    PERFORM howdah.open_nodes(p_id, v_nodes);
    PERFORM howdah.note_workflow(v_workflow);
    PERFORM howdah.advance_workflow(p_id, 1000);
    PERFORM howdah.notify_advance(p_id);
    RETURN cardinality(v_nodes);
END
$$;
COMMENT ON FUNCTION howdah.retry_workflow IS
    'Goes on from what broke: each failed, cancelled and skipped node runs again, its completed jobs excepted. With p_node, the name of a node that has ended:'
    ' that one and all that depend on it run again. Also for a workflow that was cancelled. Returns how many nodes.';
REVOKE ALL ON FUNCTION howdah.retry_workflow FROM PUBLIC;
