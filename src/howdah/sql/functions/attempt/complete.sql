CREATE OR REPLACE FUNCTION howdah.complete(
    p_ids uuid[],
    p_tokens bigint[],
    p_results jsonb[] DEFAULT NULL
) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY and a merge join, whatever the statistics: a plan made for an empty table must hold for a full one, and
-- all functions must lock rows in the order of their ids, or two batches deadlock.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET enable_hashjoin = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_completed uuid[];
    v_flow_types varchar[];
    v_workflow_ids uuid[];
    v_nodes int[];
    v_places int[];
    v_now timestamptz := howdah.clock();
    v_share float8 := 64.0 / greatest(cardinality(p_ids), 1);
BEGIN
    IF pg_column_size(p_results) > 65536 THEN
        PERFORM howdah.check_size(p_results, 'a result');
    END IF;
    WITH deleted AS (
        DELETE FROM howdah.live AS j USING unnest(p_ids, p_tokens, p_results) AS ended (id, token, result)
        WHERE j.id = ANY (p_ids) AND j.id = ended.id AND j.token = ended.token AND j.status <> 'pending'
        RETURNING j.*, ended.result AS ended_with
    ), kept AS (
        INSERT INTO howdah.archive_open (
            id, token, finished_at, run_at, first_due_at, created_at, claimed_at, started_at, completed_at,
            expires_at, cancel_requested_at, timeout, parent_id, workflow_id, priority, attempts, max_attempts,
            crashes, interruptions, progress, events_count, job_type, status, data, key, order_key, worker_id,
            current_stage, last_error, errors, result, checkpoint, retry_policy, meta, unique_key, progress_report, flow_key, cost, node, place
        )
        SELECT
            id, token, howdah.clock(), run_at, first_due_at, created_at, claimed_at, howdah.begun_at(status, started_at, claimed_at), howdah.clock(),
            expires_at, cancel_requested_at, timeout, parent_id, workflow_id, priority, attempts, max_attempts,
            crashes, interruptions, 100, events_count, job_type, 'completed', data, key, order_key, worker_id,
            current_stage, last_error, errors, ended_with, checkpoint, retry_policy, meta, unique_key,
            CASE WHEN progress_report IS NOT NULL THEN (howdah.with_seq(progress_report, 1) - 'eta') || '{"percent": 100}' END,
            flow_key, cost, node, place
        FROM deleted
    ), counted AS (
        INSERT INTO howdah.archive_counts (day, job_type, status, jobs)
        SELECT (howdah.clock() AT TIME ZONE 'UTC')::date, job_type, 'completed', count(*) FROM deleted GROUP BY job_type
        RETURNING job_type
    ), measured AS (
        -- Of a large batch, some jobs stand for all: their buckets cost more than the rest of the row.
        INSERT INTO howdah.minutes (at, job_type, completed, waits, runs)
        SELECT
            date_trunc('minute', v_now), job_type, count(*),
            array_agg(howdah.bucket(howdah.begun_at(status, started_at, claimed_at) - run_at)) FILTER (WHERE random() < v_share AND howdah.is_in_reach(run_at) AND howdah.is_in_reach(started_at)),
            array_agg(howdah.bucket(v_now - howdah.begun_at(status, started_at, claimed_at))) FILTER (WHERE random() < v_share AND howdah.is_in_reach(started_at))
        FROM deleted GROUP BY job_type
    ), noted AS (
        -- A job that never reported anything gets no event at its end: there are millions of those.
        INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
        SELECT
            howdah.clock(), id, token, howdah.seq_of(progress_report) + 1, attempts, job_type, 'status', 'completed',
            jsonb_strip_nulls(jsonb_build_object('cause', 'completed', 'worker', worker_id, 'started_at', howdah.begun_at(status, started_at, claimed_at)))
        FROM deleted WHERE progress_report IS NOT NULL
    ), notified AS MATERIALIZED (
        SELECT howdah.notify_watchers(array_agg(job_type)) FROM counted
    )
    SELECT
        array_agg(deleted.id), array_agg(DISTINCT deleted.job_type) FILTER (WHERE deleted.flow_key IS NOT NULL),
        array_agg(deleted.workflow_id) FILTER (WHERE deleted.node IS NOT NULL), array_agg(deleted.node) FILTER (WHERE deleted.node IS NOT NULL),
        array_agg(deleted.place) FILTER (WHERE deleted.node IS NOT NULL)
    INTO v_completed, v_flow_types, v_workflow_ids, v_nodes, v_places
    FROM deleted CROSS JOIN notified;
    IF v_flow_types IS NOT NULL THEN
        -- A key, or a limit, has room again.
        PERFORM howdah.notify_workers(v_flow_types);
    END IF;
    IF v_nodes IS NOT NULL THEN
        PERFORM howdah.note_members(v_workflow_ids, v_nodes, v_places, array_fill('completed'::varchar, ARRAY[cardinality(v_nodes)]));
    END IF;
    RETURN QUERY SELECT unnest(v_completed);
    IF cardinality(v_completed) IS DISTINCT FROM cardinality(p_ids) THEN
        -- A client repeats a call whose reply was lost: what this very claim has completed counts as completed.
        RETURN QUERY
        SELECT a.id FROM unnest(p_ids, p_tokens) AS ended (id, token)
        JOIN howdah.archive AS a ON a.id = ended.id AND a.token = ended.token
        WHERE a.id = ANY (p_ids) AND a.id <> ALL (coalesce(v_completed, '{}')) AND a.status = 'completed';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.complete IS
    'Ends held jobs as completed. Returns the ids of the completed jobs; a job whose token is no longer that of the claim is left out. A job that'
    ' this very claim has completed before is included, so that a call whose reply was lost can be repeated.';
REVOKE ALL ON FUNCTION howdah.complete FROM PUBLIC;
