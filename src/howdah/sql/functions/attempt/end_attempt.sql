-- p_tokens is the fence; a caller without a claim (the sweep) passes the token of the row that it read.
CREATE OR REPLACE FUNCTION howdah.end_attempt(
    p_cause text,
    p_ids uuid[],
    p_tokens bigint[],
    p_errors text[] DEFAULT NULL,
    p_tracebacks text[] DEFAULT NULL,
    p_run_ats timestamptz[] DEFAULT NULL,
    p_give_ups boolean[] DEFAULT NULL,
    p_exceptions text[] DEFAULT NULL
) RETURNS TABLE (id uuid, status varchar, run_at timestamptz, reason text)
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
    v_ids uuid[];
    v_job_types varchar[];
    v_statuses varchar[];
    v_errors text[];
    v_entries jsonb[];
    v_run_ats timestamptz[];
    v_refunds int[];
    v_crashes int[];
    v_interruptions int[];
    v_notes jsonb[];
    v_flow_keys text[];
    v_ordered boolean[];
    v_returned_types varchar[];
    v_returned_keys text[];
    v_returned_costs int[];
BEGIN
    WITH claim AS MATERIALIZED (
        SELECT DISTINCT ON (c.id, c.token) c.*
        FROM unnest(p_ids, p_tokens, p_errors, p_tracebacks, p_run_ats, p_give_ups, p_exceptions)
            AS c (id, token, error, traceback, run_at, give_up, exception)
        ORDER BY c.id, c.token
    ), held AS MATERIALIZED (
        SELECT j AS job, claim.error, claim.traceback, claim.run_at, claim.give_up, claim.exception
        FROM claim JOIN howdah.live AS j ON j.id = claim.id AND j.token = claim.token
        -- Not the predicate of the index of held jobs: these must be found by their ids.
        WHERE j.id = ANY (p_ids) AND j.status <> 'pending'
        FOR UPDATE OF j
    )
    SELECT
        array_agg((held.job).id),
        array_agg((held.job).job_type),
        array_agg(e.status),
        array_agg(e.error),
        array_agg(e.entry),
        array_agg(e.run_at),
        array_agg(e.refund),
        array_agg(e.crashes),
        array_agg(e.interruptions),
        array_agg(e.note || jsonb_build_object('attempt', (held.job).attempts, 'token', (held.job).token)),
        array_agg(howdah.flow_key_of(t.keyed, t.per, (held.job).data, (held.job).flow_key)),
        array_agg(t.ordered),
        -- It has not started: the tokens of rates that its claim took are free again.
        array_agg((held.job).job_type) FILTER (WHERE (t.rated OR t.groups IS NOT NULL) AND (held.job).status = 'claimed' AND e.refund > 0),
        array_agg((held.job).flow_key) FILTER (WHERE (t.rated OR t.groups IS NOT NULL) AND (held.job).status = 'claimed' AND e.refund > 0),
        array_agg((held.job).cost) FILTER (WHERE (t.rated OR t.groups IS NOT NULL) AND (held.job).status = 'claimed' AND e.refund > 0)
    INTO
        v_ids, v_job_types, v_statuses, v_errors, v_entries, v_run_ats, v_refunds, v_crashes, v_interruptions, v_notes, v_flow_keys, v_ordered,
        v_returned_types, v_returned_keys, v_returned_costs
    FROM held
    LEFT JOIN howdah.types AS t ON t.job_type = (held.job).job_type
    CROSS JOIN LATERAL howdah.attempt_outcome(
        held.job, p_cause, held.error, held.traceback, held.run_at, coalesce(held.give_up, false), held.exception
    ) AS e;

    WITH changed AS (
        UPDATE howdah.live AS j SET
            status = CASE WHEN v.status = 'pending' THEN 'pending' ELSE j.status END,
            run_at = v.run_at,
            attempts = greatest(j.attempts - v.refund, 0),
            -- An attempt that its own worker ended keeps its token (the status fences it). Every other token is revoked.
            token = CASE WHEN p_cause IN ('failed', 'cancelled') THEN j.token ELSE howdah.next_token(j.token) END,
            crashes = v.crashes,
            interruptions = v.interruptions,
            last_error = coalesce(v.error, j.last_error),
            errors = howdah.with_error(j.errors, v.entry),
            -- The rules of the type may have changed while the job was held.
            flow_key = v.flow_key,
            order_key = CASE WHEN v.ordered THEN v.flow_key END,
            line = CASE WHEN v.status = 'pending' THEN howdah.line_of(v.flow_key, v.run_at) END,
            started_at = CASE WHEN p_cause = 'released' THEN j.started_at ELSE howdah.begun_at(j.status, j.started_at, j.claimed_at) END,
            worker_id = NULL,
            claimed_at = NULL,
            lease = NULL,
            lease_until = NULL,
            deadline_at = NULL,
            generation = NULL,
            progress_report = CASE WHEN v.note IS NULL THEN j.progress_report ELSE howdah.with_seq(coalesce(j.progress_report, '{}'), 1) - 'eta' END,
            own_write = NOT j.own_write
        FROM unnest(
            v_ids, v_statuses, v_errors, v_entries, v_run_ats, v_refunds, v_crashes, v_interruptions, v_notes, v_flow_keys, v_ordered
        ) AS v (id, status, error, entry, run_at, refund, crashes, interruptions, note, flow_key, ordered)
        WHERE j.id = ANY (v_ids) AND j.id = v.id
        RETURNING j.id, j.job_type, j.progress_report, v.status AS next_status, v.run_at AS next_run_at, v.note
    )
    INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
    SELECT
        howdah.clock(), c.id, (c.note ->> 'token')::bigint, howdah.seq_of(c.progress_report), (c.note ->> 'attempt')::int,
        c.job_type, 'status', c.next_status,
        (c.note - 'token' - 'attempt') || CASE
            WHEN c.next_status = 'pending' THEN jsonb_build_object('run_at', c.next_run_at) ELSE '{}'
        END
    FROM changed AS c WHERE c.note IS NOT NULL;

    IF v_returned_types IS NOT NULL THEN
        PERFORM howdah.return_tokens(v_returned_types, v_returned_keys, v_returned_costs);
    END IF;
    PERFORM howdah.archive_jobs(array_agg(v.id), array_agg(v.status), p_noted => true)
    FROM unnest(v_ids, v_statuses) AS v (id, status)
    WHERE v.status <> 'pending'
    HAVING count(*) > 0;
    PERFORM howdah.notify_watchers(v_job_types);
    PERFORM howdah.notify_workers(array_agg(DISTINCT v.job_type))
    FROM unnest(v_job_types, v_statuses, v_run_ats, v_flow_keys) AS v (job_type, status, run_at, flow_key)
    -- Its key, or a limit, has room again.
    WHERE v.flow_key IS NOT NULL OR (v.status = 'pending' AND v.run_at <= howdah.clock() + interval '2 seconds')
    HAVING count(*) > 0;

    RETURN QUERY
    SELECT v.* FROM unnest(v_ids, v_statuses, v_run_ats, v_errors) AS v (id, status, run_at, reason);
END
$$;
COMMENT ON FUNCTION howdah.end_attempt IS
    'Ends the claim of held jobs without success: they become pending, failed or cancelled, as attempt_outcome decides. Returns the jobs that'
    ' it changed. Internal.';
REVOKE ALL ON FUNCTION howdah.end_attempt FROM PUBLIC;
