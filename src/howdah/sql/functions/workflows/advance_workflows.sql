CREATE OR REPLACE FUNCTION howdah.advance_workflows(p_limit int DEFAULT 1000) RETURNS TABLE (done int, more boolean, maps boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Shared by all waits of a call that were in vain: see below.
SET lock_timeout = '500ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_id uuid;
    v_broken uuid[] := '{}';
    v_careful boolean;
    v_since timestamptz;
    -- Milliseconds. One transaction may have locked the nodes of any number of workflows.
    v_patience float8 := 500;
BEGIN
    done := 0;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'workflows are advanced in a READ COMMITTED transaction' USING ERRCODE = 'JQ001';
    END IF;
    FOR v_id IN
        SELECT w.id FROM howdah.workflows AS w
        WHERE w.finished_at IS NULL AND least(w.deadline_at, w.expires_at) <= howdah.clock()
            AND w.started_at IS NOT NULL AND (w.error IS NULL OR w.expires_at <= howdah.clock() AND NOT w.cancel_all)
        ORDER BY least(w.deadline_at, w.expires_at) LIMIT 100 FOR UPDATE SKIP LOCKED
    LOOP
        -- What is wrong with one workflow does not stop the others, here and below.
        v_since := clock_timestamp();
        PERFORM set_config('lock_timeout', greatest(v_patience / 4, 1)::int::text, true);
        BEGIN
            done := done + (
                SELECT howdah.cancel_workflow(
                    v_id, CASE WHEN w.expires_at <= howdah.clock() THEN 'it is older than its maximum age' ELSE 'its deadline has passed' END,
                    p_fails => true, p_all => w.expires_at <= howdah.clock()
                )::int FROM howdah.workflows AS w WHERE w.id = v_id
            );
        EXCEPTION
            WHEN lock_not_available OR deadlock_detected THEN
                v_patience := v_patience - extract(epoch FROM clock_timestamp() - v_since) * 1000;
            WHEN others THEN
                IF howdah.is_passing(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'workflow % could not be ended: %', v_id, SQLERRM;
        END;
    END LOOP;
    -- A client that added its parts in several transactions, and died before the last one.
    FOR v_id IN
        UPDATE howdah.workflows AS w SET
            status = 'failed', error = 'it was never started', finished_at = howdah.clock(), cancel_requested_at = howdah.clock(), cancel_all = true
        WHERE w.id = ANY (ARRAY(
            SELECT o.id FROM howdah.workflows AS o
            WHERE o.finished_at IS NULL AND o.started_at IS NULL AND least(o.deadline_at, o.expires_at) <= howdah.clock() FOR UPDATE SKIP LOCKED
        ))
        RETURNING w.id
    LOOP
        UPDATE howdah.workflow_nodes AS n SET step = 'cancel', step_from = 0 WHERE n.workflow_id = v_id AND n.node > 0 AND n.state <> 'ended';
        -- As start_workflow: the sums of the whole begin with all jobs.
        INSERT INTO howdah.workflow_counts AS c (workflow_id, node, stripe, remaining)
        SELECT v_id, 0, 0, coalesce(sum(n.jobs), 0) FROM howdah.workflow_nodes AS n WHERE n.workflow_id = v_id
        ON CONFLICT (workflow_id, node, stripe) DO UPDATE SET remaining = c.remaining + excluded.remaining;
    END LOOP;
    FOR v_id IN
        WITH RECURSIVE walk AS (
            (SELECT d.workflow_id FROM howdah.workflow_deltas AS d ORDER BY d.workflow_id LIMIT 1)
            UNION ALL
            SELECT (SELECT d.workflow_id FROM howdah.workflow_deltas AS d WHERE d.workflow_id > walk.workflow_id ORDER BY d.workflow_id LIMIT 1)
            FROM walk WHERE walk.workflow_id IS NOT NULL
        )
        SELECT todo.workflow_id FROM (
            SELECT walk.workflow_id FROM walk WHERE walk.workflow_id IS NOT NULL
            UNION
            SELECT n.workflow_id FROM howdah.workflow_nodes AS n WHERE n.step IS NOT NULL AND n.step <> 'expand'
        ) AS todo
        -- Not all calls of one moment in the same order.
        ORDER BY random()
    LOOP
        EXIT WHEN done >= p_limit;
        v_since := clock_timestamp();
        PERFORM set_config('lock_timeout', greatest(v_patience / 4, 1)::int::text, true);
        FOREACH v_careful IN ARRAY ARRAY[false, true] LOOP
            BEGIN
                PERFORM howdah.fold_workflow(v_id);
                done := done + howdah.advance_workflow(v_id, p_limit - done, v_careful);
                EXIT;
            EXCEPTION
                WHEN lock_not_available OR deadlock_detected THEN
                    v_patience := v_patience - extract(epoch FROM clock_timestamp() - v_since) * 1000;
                    EXIT;
                WHEN others THEN
                    IF howdah.is_passing(SQLSTATE) THEN
                        RAISE;
                    ELSIF v_careful THEN
                        RAISE WARNING 'workflow % could not be advanced: %', v_id, SQLERRM;
                    END IF;
                    v_broken := v_broken || v_id;
            END;
        END LOOP;
    END LOOP;
    SELECT
        -- A worker that ends when all is done does not wait for what cannot be done.
        EXISTS (SELECT FROM howdah.workflow_nodes AS n WHERE n.step IS NOT NULL AND n.step <> 'expand' AND n.workflow_id <> ALL (v_broken)),
        EXISTS (SELECT FROM howdah.workflow_nodes AS n WHERE n.step = 'expand')
    INTO more, maps;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.advance_workflows IS
    'Does what commits have left to do for workflows: counts ended jobs, makes waiting ones due, cancels those that are not needed, ends workflows'
    ' whose deadline has passed. At most about p_limit jobs and edges. more: there is more to do, or another transaction does it. maps: a map waits for'
    ' its jobs (see maps_to_expand). Any number may run at once. The sweep calls it.';
REVOKE ALL ON FUNCTION howdah.advance_workflows FROM PUBLIC;
