CREATE OR REPLACE FUNCTION howdah.retry_ended(p_ids uuid[], p_fresh boolean) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY and a hash join, whatever the statistics: a plan made for an empty table must hold for a full one, and
-- all functions must lock rows in the order of their ids, or two batches deadlock.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_asked uuid[] := p_ids;
    v_ids uuid[];
    v_job_types varchar[];
    v_with_steps uuid[];
    v_members uuid[];
    v_workflow_ids uuid[];
    v_nodes int[];
    v_places int[];
    v_statuses varchar[];
BEGIN
    IF EXISTS (SELECT FROM howdah.archive AS a WHERE a.id = ANY (p_ids) AND a.unique_key IS NOT NULL) THEN
        v_asked := howdah.retryable(p_ids);
    END IF;
    WITH ended AS MATERIALIZED (
        SELECT a.* FROM howdah.archive AS a WHERE a.id = ANY (v_asked) ORDER BY a.id FOR UPDATE
    ), revived AS (
        INSERT INTO howdah.live (
            id, token, run_at, first_due_at, created_at, expires_at, timeout, parent_id, workflow_id,
            priority, attempts, max_attempts, crashes, interruptions, progress, events_count, job_type, status,
            data, key, order_key, current_stage, last_error, errors, checkpoint, retry_policy, meta, unique_key, progress_report, flow_key, line, cost
        )
        SELECT
            id, howdah.next_token(token), howdah.clock(), howdah.clock(), created_at, NULL, timeout, parent_id,
            workflow_id, priority, 0, max_attempts, 0, 0, 0, events_count, job_type, 'pending',
            data, key, CASE WHEN flow.ordered THEN flow.its_key END,
            NULL, last_error, errors, CASE WHEN NOT p_fresh THEN checkpoint END, retry_policy, meta, unique_key,
            -- The progress of the earlier run does not apply to the new one; its history (points) stays.
            CASE WHEN progress_report IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
                'seq', howdah.seq_of(progress_report) + 1, 'points', progress_report -> 'points', 'step', progress_report -> 'step'
            )) END,
            flow.its_key, howdah.line_of(flow.its_key, howdah.clock()), cost
        FROM ended
        CROSS JOIN LATERAL (
            SELECT howdah.flow_key_of(t.keyed, t.per, ended.data, ended.flow_key) AS its_key, t.ordered
            FROM (SELECT) AS it LEFT JOIN howdah.types AS t ON t.job_type = ended.job_type
        ) AS flow
        -- A live job may have taken its key: then the ended one stays where it is.
        ON CONFLICT DO NOTHING
        RETURNING id, job_type, token, progress_report
    ), deleted AS (
        DELETE FROM howdah.archive AS a USING revived
        WHERE a.id = ANY (v_asked) AND a.id = revived.id
    ), noted AS (
        INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
        SELECT
            howdah.clock(), id, token, howdah.seq_of(progress_report), 0, job_type, 'status', 'pending', '{"cause": "retried"}'
        FROM revived WHERE progress_report IS NOT NULL
    )
    SELECT
        array_agg(revived.id), array_agg(DISTINCT revived.job_type), array_agg(ended.id) FILTER (WHERE ended.node IS NOT NULL),
        array_agg(ended.workflow_id) FILTER (WHERE ended.node IS NOT NULL), array_agg(ended.node) FILTER (WHERE ended.node IS NOT NULL),
        array_agg(ended.place) FILTER (WHERE ended.node IS NOT NULL), array_agg(ended.status) FILTER (WHERE ended.node IS NOT NULL)
    INTO v_ids, v_job_types, v_members, v_workflow_ids, v_nodes, v_places, v_statuses
    FROM revived JOIN ended ON ended.id = revived.id;
    IF v_members IS NOT NULL THEN
        PERFORM howdah.take_counts_back(v_members, v_workflow_ids, v_nodes, v_places, v_statuses);
    END IF;
    v_with_steps := ARRAY(SELECT DISTINCT s.job_id FROM howdah.steps AS s WHERE s.job_id = ANY (v_ids));
    IF v_with_steps <> '{}' THEN
        UPDATE howdah.live AS j SET has_steps = true, own_write = NOT j.own_write WHERE j.id = ANY (v_with_steps);
        -- What timed out is waited for again, from the beginning.
        PERFORM howdah.remove_steps(v_with_steps, p_fresh);
    END IF;
    IF v_job_types IS NOT NULL THEN
        PERFORM howdah.notify_watchers(v_job_types);
        PERFORM howdah.notify_workers(v_job_types);
    END IF;
    RETURN QUERY SELECT unnest(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.retry_ended IS
    'Makes ended jobs pending again: what retry does, waiting for locks as long as its caller says. Internal.';
REVOKE ALL ON FUNCTION howdah.retry_ended FROM PUBLIC;
