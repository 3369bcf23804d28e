CREATE OR REPLACE FUNCTION howdah.release_node(p_node howdah.workflow_nodes, p_limit int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Rows must be found by their ids, whatever the statistics, and locked in this order: see complete.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_options howdah.node_options := jsonb_populate_record(NULL::howdah.node_options, coalesce(p_node.options, '{}'));
    v_due timestamptz := greatest(coalesce(v_options.run_at, howdah.clock() + v_options.delay), howdah.clock());
    v_from uuid := howdah.member_id(p_node.first_id, p_node.step_from);
    v_end int := least(p_node.step_from + p_limit, p_node.jobs);
    v_to uuid := howdah.member_id(p_node.first_id, v_end);
    v_ids uuid[];
    v_types varchar[];
    v_expires_in interval := coalesce(v_options.expires_in, (SELECT t.expires_in FROM howdah.types AS t WHERE t.job_type = p_node.job_type));
    v_is_over boolean;
BEGIN
    -- A job that waits for something else (a signal) was due before.
    v_ids := ARRAY(
        SELECT j.id FROM howdah.live AS j
        WHERE j.id >= v_from AND j.id < v_to AND j.workflow_id = p_node.workflow_id AND j.node = p_node.node AND j.first_due_at = 'infinity'
        ORDER BY j.id FOR UPDATE SKIP LOCKED
    );
    UPDATE howdah.live AS j SET
        run_at = v_due, first_due_at = v_due, expires_at = coalesce(j.expires_at, v_due + v_expires_in),
        line = howdah.line_of(j.flow_key, v_due), own_write = NOT j.own_write
    WHERE j.id = ANY (v_ids);
    IF v_end >= p_node.jobs THEN
        -- Jobs that were spawned before the node ran again.
        UPDATE howdah.live AS j SET
            run_at = v_due, first_due_at = v_due, line = howdah.line_of(j.flow_key, v_due), own_write = NOT j.own_write
        FROM howdah.workflow_spawned AS s
        WHERE s.workflow_id = p_node.workflow_id AND s.node = p_node.node AND j.id >= s.first_id AND j.id < howdah.member_id(s.first_id, s.jobs)
            AND j.first_due_at = 'infinity' AND j.node = p_node.node AND j.workflow_id = p_node.workflow_id;
    END IF;
    -- Those of other transactions, which cancel or delete them: they are looked at again when all others are due.
    v_is_over := v_end >= p_node.jobs AND NOT EXISTS (
        SELECT FROM howdah.live AS j
        WHERE j.id >= p_node.first_id AND j.id < v_to AND j.workflow_id = p_node.workflow_id AND j.node = p_node.node AND j.first_due_at = 'infinity'
    );
    UPDATE howdah.workflow_nodes AS n SET
        step = CASE WHEN v_is_over THEN NULL ELSE n.step END, step_from = CASE WHEN v_end >= n.jobs THEN 0 ELSE v_end END
    WHERE n.workflow_id = p_node.workflow_id AND n.node = p_node.node;
    IF v_ids <> '{}' AND v_due <= howdah.clock() + interval '2 seconds' THEN
        PERFORM howdah.notify_workers(ARRAY[p_node.job_type]);
    END IF;
    RETURN CASE WHEN v_end >= p_node.jobs AND NOT v_is_over AND v_ids = '{}' THEN NULL ELSE v_end - p_node.step_from END;
END
$$;
COMMENT ON FUNCTION howdah.release_node IS
    'Makes the next p_limit waiting jobs of a node due. Part of advance_workflow. NULL: the rest is locked. Internal.';
REVOKE ALL ON FUNCTION howdah.release_node FROM PUBLIC;
