CREATE OR REPLACE FUNCTION howdah.archive_jobs(
    p_ids uuid[],
    p_statuses varchar[],
    p_errors text[] DEFAULT NULL,
    p_noted boolean DEFAULT false,
    p_cause text DEFAULT NULL,
    p_inserted boolean DEFAULT false
) RETURNS void
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
    v_types varchar[];
    v_flow_types varchar[];
    v_key_types varchar[];
    v_flow_keys text[];
    v_key_ids uuid[];
    v_key_ended_as varchar[];
    v_failed uuid[];
    v_workflow_ids uuid[];
    v_nodes int[];
    v_places int[];
    v_ended_as varchar[];
    v_now timestamptz := howdah.clock();
    v_share float8 := 64.0 / greatest(cardinality(p_ids), 1);
BEGIN
    WITH ended AS MATERIALIZED (
        SELECT * FROM unnest(p_ids, p_statuses, p_errors) AS e (id, status, error)
    ), deleted AS (
        DELETE FROM howdah.live AS j USING ended
        WHERE j.id = ANY (p_ids) AND j.id = ended.id
        RETURNING j.*, ended.status AS ended_as, ended.error
    ), kept AS (
        INSERT INTO howdah.archive_open (
            id, token, finished_at, run_at, first_due_at, created_at, claimed_at, started_at, completed_at,
            expires_at, cancel_requested_at, timeout, parent_id, workflow_id, priority, attempts, max_attempts,
            crashes, interruptions, progress, events_count, job_type, status, data, key, order_key, worker_id,
            current_stage, last_error, errors, result, checkpoint, retry_policy, meta, unique_key, progress_report, flow_key, cost, node, place
        )
        SELECT
            id, token, howdah.clock(), run_at, first_due_at, created_at, claimed_at, started_at, completed_at,
            expires_at, cancel_requested_at, timeout, parent_id, workflow_id, priority, attempts, max_attempts,
            crashes, interruptions, progress, events_count, job_type, ended_as, data, key, order_key, worker_id,
            current_stage, coalesce(error, last_error), errors, result, checkpoint, retry_policy, meta, unique_key,
            CASE WHEN progress_report IS NOT NULL THEN howdah.with_seq(progress_report, CASE WHEN p_noted THEN 0 ELSE 1 END) - 'eta' END,
            flow_key, cost, node, place
        FROM deleted
    ), counted AS (
        INSERT INTO howdah.archive_counts (day, job_type, status, jobs)
        SELECT (howdah.clock() AT TIME ZONE 'UTC')::date, job_type, ended_as, count(*)
        FROM deleted GROUP BY job_type, ended_as
    ), measured AS (
        INSERT INTO howdah.minutes (at, job_type, completed, failed, cancelled, waits, runs)
        SELECT
            date_trunc('minute', v_now), job_type, count(*) FILTER (WHERE ended_as = 'completed'),
            count(*) FILTER (WHERE ended_as = 'failed'), count(*) FILTER (WHERE ended_as = 'cancelled'),
            array_agg(howdah.bucket(started_at - run_at))
                FILTER (WHERE howdah.is_in_reach(run_at) AND howdah.is_in_reach(started_at) AND ended_as <> 'cancelled' AND random() < v_share),
            array_agg(howdah.bucket(v_now - started_at)) FILTER (WHERE howdah.is_in_reach(started_at) AND ended_as <> 'cancelled' AND random() < v_share)
        FROM deleted WHERE NOT p_inserted GROUP BY job_type
    ), noted AS (
        INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
        SELECT
            howdah.clock(), id, token, howdah.seq_of(progress_report) + 1, attempts, job_type, 'status', ended_as,
            jsonb_strip_nulls(jsonb_build_object('cause', coalesce(p_cause, ended_as), 'error', nullif(error, p_cause)))
        FROM deleted WHERE progress_report IS NOT NULL AND NOT p_noted
    )
    SELECT
        array_agg(DISTINCT job_type), array_agg(DISTINCT job_type) FILTER (WHERE flow_key IS NOT NULL),
        array_agg(job_type) FILTER (WHERE order_key IS NOT NULL), array_agg(flow_key) FILTER (WHERE order_key IS NOT NULL),
        array_agg(id) FILTER (WHERE order_key IS NOT NULL), array_agg(ended_as) FILTER (WHERE order_key IS NOT NULL),
        array_agg(id) FILTER (WHERE ended_as = 'failed' AND NOT p_inserted),
        array_agg(workflow_id) FILTER (WHERE node IS NOT NULL), array_agg(node) FILTER (WHERE node IS NOT NULL),
        array_agg(place) FILTER (WHERE node IS NOT NULL), array_agg(ended_as) FILTER (WHERE node IS NOT NULL)
    INTO v_types, v_flow_types, v_key_types, v_flow_keys, v_key_ids, v_key_ended_as, v_failed, v_workflow_ids, v_nodes, v_places, v_ended_as
    FROM deleted;
    IF v_key_types IS NOT NULL AND EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = ANY (v_key_types) AND t.pause_on_failure) THEN
        PERFORM howdah.pause_failed(v_key_types, v_key_ids, v_key_ended_as);
    END IF;
    IF v_failed IS NOT NULL
        AND EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = ANY (v_types) AND t.on_failure IS NOT NULL)
    THEN
        PERFORM howdah.enqueue_on_failure(v_failed);
    END IF;
    IF v_nodes IS NOT NULL THEN
        PERFORM howdah.note_members(v_workflow_ids, v_nodes, v_places, v_ended_as);
    END IF;
    PERFORM howdah.notify_watchers(v_types);
    IF v_flow_types IS NOT NULL THEN
        -- A key, or a limit, has room again.
        PERFORM howdah.notify_workers(v_flow_types);
        PERFORM howdah.end_rests(v_key_types, v_flow_keys) WHERE v_key_types IS NOT NULL;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.archive_jobs IS
    'Moves jobs that the caller has locked to the archive, with the statuses given. p_noted: the caller has written the event. p_cause: the'
    ' cause in the event, if it is not the status. p_inserted: a plain client has inserted them as ended; nothing has failed. Internal: it has'
    ' no fence of its own.';
REVOKE ALL ON FUNCTION howdah.archive_jobs FROM PUBLIC;
