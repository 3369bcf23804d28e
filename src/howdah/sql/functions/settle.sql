-- What becomes of held jobs whose claim ends without success: the one place that decides it.
--
--   cause          who says so                          from              attempt   next
--   failed         its worker                           claimed, running  spent     later, or failed
--   timed out      the sweep                            running           spent     later, or failed
--   stalled        the sweep, if its type says so       running           spent     later, or failed
--   cancel overdue the sweep                            running           spent     cancelled
--   lease passed   the sweep (unregistered holder)      claimed, running  spent     now, or failed
--   worker died    the sweep                            running           spent     now, or failed; crashes + 1
--   worker died    the sweep                            claimed           refunded  now
--   crashed        its worker (a child process died)    running           spent     now, or failed; crashes + 1
--   cancelled      its worker                           claimed, running  spent     cancelled
--   released       its worker                           claimed           refunded  now
--   interrupted    its worker, at the end of the grace  running           refunded  now, a bounded number of times
--   interrupted    its worker, at the end of the grace  claimed           refunded  now
--   snoozed        its worker                           running           refunded  when it asked
--
-- A job whose cancellation was requested ends as cancelled, whatever the cause. p_tokens is the fence;
-- a caller without a claim (the sweep) passes the token of the row that it looked at.
CREATE OR REPLACE FUNCTION howdah.settle(
    p_cause text,
    p_ids uuid[],
    p_tokens bigint[],
    p_errors text[] DEFAULT NULL,
    p_tracebacks text[] DEFAULT NULL,
    p_run_ats timestamptz[] DEFAULT NULL,
    p_give_ups boolean[] DEFAULT NULL
) RETURNS TABLE (id uuid, status varchar, run_at timestamptz, reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- By id = ANY and a hash join, whatever the planner knows: a plan made for a table that was empty must hold for a full
-- one, and rows must be locked in the order of their ids everywhere, or two batches wait for each other in a circle.
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
BEGIN
    WITH claim AS MATERIALIZED (
        SELECT DISTINCT ON (c.id, c.token) c.*
        FROM unnest(p_ids, p_tokens, p_errors, p_tracebacks, p_run_ats, p_give_ups)
            AS c (id, token, error, traceback, run_at, give_up)
        ORDER BY c.id, c.token
    ), held AS MATERIALIZED (
        SELECT
            j.*, claim.error, claim.traceback, claim.run_at AS wanted_at, coalesce(claim.give_up, false) AS give_up,
            j.crashes + CASE WHEN p_cause IN ('worker died', 'crashed') AND j.status = 'running' THEN 1 ELSE 0 END AS new_crashes,
            j.interruptions + CASE WHEN p_cause = 'interrupted' AND j.status = 'running' THEN 1 ELSE 0 END AS new_interruptions
        FROM claim JOIN howdah.live AS j ON j.id = claim.id AND j.token = claim.token
        WHERE j.id = ANY (p_ids) AND CASE p_cause
            WHEN 'failed' THEN j.status IN ('claimed', 'running')
            WHEN 'lease passed' THEN j.status IN ('claimed', 'running')
            WHEN 'worker died' THEN j.status IN ('claimed', 'running')
            WHEN 'cancelled' THEN j.status IN ('claimed', 'running')
            WHEN 'crashed' THEN j.status = 'running'
            WHEN 'released' THEN j.status = 'claimed'
            WHEN 'interrupted' THEN j.status IN ('claimed', 'running')
            WHEN 'snoozed' THEN j.status = 'running'
            WHEN 'timed out' THEN j.status = 'running'
            WHEN 'stalled' THEN j.status = 'running'
            WHEN 'cancel overdue' THEN j.status = 'running' AND j.cancel_requested_at IS NOT NULL
        END
        FOR UPDATE OF j
    ), judged AS (
        SELECT
            held.*,
            p_cause IN ('released', 'snoozed')
                OR (p_cause IN ('worker died', 'interrupted') AND held.status = 'claimed')
                OR (p_cause = 'interrupted' AND held.new_interruptions <= s.max_interruptions) AS refunded,
            CASE
                WHEN p_cause = 'worker died' AND held.status = 'running' THEN
                    format('worker %s died while it ran the job (worker died %s)', held.worker_id, often.in_words)
                WHEN p_cause = 'crashed' THEN
                    format('%s (worker died %s)', coalesce(held.error, 'the process that ran the job died'), often.in_words)
                WHEN p_cause = 'interrupted' AND held.status = 'running' AND held.new_interruptions > s.max_interruptions THEN
                    format('interrupted %s by workers that stopped', often.in_words)
                WHEN p_cause = 'lease passed' THEN
                    format('the lease of worker %s passed without a sign of life', coalesce(held.worker_id, '(unnamed)'))
                WHEN p_cause = 'timed out' THEN format('timed out after %s', coalesce(held.timeout, t.timeout))
                WHEN p_cause = 'stalled' THEN format(
                    'stalled: nothing was reported for %s s',
                    round(extract(epoch FROM howdah.clock())::numeric - (held.report ->> 'at')::numeric)
                )
                WHEN p_cause = 'failed' THEN coalesce(held.error, 'failed without an error message')
                WHEN p_cause = 'cancelled' THEN held.error
            END AS message,
            coalesce(t.max_crashes, s.max_crashes) AS max_crashes
        FROM held
        CROSS JOIN LATERAL (
            SELECT CASE WHEN p_cause = 'interrupted' THEN held.new_interruptions ELSE held.new_crashes END AS times
        ) AS n
        CROSS JOIN LATERAL (SELECT CASE n.times WHEN 1 THEN 'once' ELSE format('%s times', n.times) END AS in_words) AS often
        CROSS JOIN howdah.settings AS s
        LEFT JOIN howdah.types AS t ON t.job_type = held.job_type
    ), decided AS (
        SELECT
            judged.*,
            CASE
                WHEN p_cause = 'cancelled' OR judged.cancel_requested_at IS NOT NULL THEN 'cancelled'
                WHEN judged.refunded THEN 'pending'
                WHEN judged.give_up OR judged.attempts >= judged.max_attempts THEN 'failed'
                WHEN judged.new_crashes > judged.crashes AND judged.new_crashes >= judged.max_crashes THEN 'failed'
                ELSE 'pending'
            END AS next_status
        FROM judged
    )
    SELECT
        array_agg(d.id),
        array_agg(d.job_type),
        array_agg(d.next_status),
        array_agg(d.message),
        array_agg(CASE WHEN p_cause <> 'cancelled' AND d.message IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
            'attempt', d.attempts, 'token', d.token, 'at', howdah.clock(), 'worker', d.worker_id,
            'started_at', d.started_at, 'kind', p_cause, 'error', d.message, 'traceback', d.traceback
        )) END),
        array_agg(CASE
            WHEN p_cause NOT IN ('failed', 'timed out', 'stalled', 'snoozed') THEN d.run_at
            WHEN d.next_status <> 'pending' THEN d.run_at
            ELSE coalesce(d.wanted_at, howdah.clock() + howdah.retry_delay(
                coalesce(d.retry_policy, '{"kind": "exponential", "delay": 2, "factor": 2, "max": 3600, "jitter": 0.2}'),
                d.attempts
            ))
        END),
        array_agg(CASE WHEN d.refunded AND d.next_status = 'pending' THEN 1 ELSE 0 END),
        array_agg(d.new_crashes),
        array_agg(d.new_interruptions),
        -- What was handed back before it began, or put off by itself, is no news.
        array_agg(CASE WHEN d.next_status <> 'pending'
                OR (p_cause NOT IN ('released', 'snoozed') AND NOT (d.refunded AND d.status = 'claimed'))
        THEN
            jsonb_strip_nulls(jsonb_build_object(
                'attempt', d.attempts, 'token', d.token, 'cause', p_cause, 'worker', d.worker_id,
                'started_at', d.started_at, 'error', d.message
            ))
        END)
    INTO v_ids, v_job_types, v_statuses, v_errors, v_entries, v_run_ats, v_refunds, v_crashes, v_interruptions, v_notes
    FROM decided AS d;

    WITH changed AS (
        UPDATE howdah.live AS j SET
            status = CASE WHEN v.status = 'pending' THEN 'pending' ELSE j.status END,
            run_at = v.run_at,
            attempts = greatest(j.attempts - v.refund, 0),
            -- An attempt that its own worker has ended keeps its token (the status fences it); every other is taken back.
            token = j.token + CASE WHEN p_cause IN ('failed', 'cancelled') THEN 0 ELSE 1 END,
            crashes = v.crashes,
            interruptions = v.interruptions,
            last_error = coalesce(v.error, j.last_error),
            errors = howdah.with_error(j.errors, v.entry),
            -- The type may have become ordered, or have ceased to be, while the job was held.
            order_key = (SELECT '' FROM howdah.types AS t WHERE t.job_type = j.job_type AND t.ordered),
            worker_id = NULL,
            lease = NULL,
            lease_until = NULL,
            deadline_at = NULL,
            report = CASE WHEN v.note IS NULL THEN j.report ELSE howdah.with_seq(coalesce(j.report, '{}'), 1) - 'eta' END
        FROM unnest(v_ids, v_statuses, v_errors, v_entries, v_run_ats, v_refunds, v_crashes, v_interruptions, v_notes)
            AS v (id, status, error, entry, run_at, refund, crashes, interruptions, note)
        WHERE j.id = ANY (v_ids) AND j.id = v.id
        RETURNING j.id, j.job_type, j.report, v.status AS next_status, v.run_at AS next_run_at, v.note
    )
    INSERT INTO howdah.events (at, job_id, token, seq, attempt, job_type, kind, name, data)
    SELECT
        howdah.clock(), c.id, (c.note ->> 'token')::bigint, howdah.seq_of(c.report), (c.note ->> 'attempt')::int,
        c.job_type, 'status', c.next_status,
        (c.note - 'token' - 'attempt') || CASE
            WHEN c.next_status = 'pending' THEN jsonb_build_object('run_at', c.next_run_at) ELSE '{}'
        END
    FROM changed AS c WHERE c.note IS NOT NULL;

    PERFORM howdah.finish(array_agg(v.id), array_agg(v.status), p_noted => true)
    FROM unnest(v_ids, v_statuses) AS v (id, status)
    WHERE v.status <> 'pending'
    HAVING count(*) > 0;
    PERFORM howdah.tell(v_job_types);
    PERFORM howdah.wake(array_agg(DISTINCT v.job_type))
    FROM unnest(v_job_types, v_statuses, v_run_ats) AS v (job_type, status, run_at)
    WHERE v.status = 'pending' AND v.run_at <= howdah.clock() + interval '2 seconds'
    HAVING count(*) > 0;

    RETURN QUERY
    SELECT v.* FROM unnest(v_ids, v_statuses, v_run_ats, v_errors) AS v (id, status, run_at, reason);
END
$$;
COMMENT ON FUNCTION howdah.settle IS
    'Ends the claim of held jobs without success: back to pending, or to failed or cancelled. Returns what it changed. Internal.';
REVOKE ALL ON FUNCTION howdah.settle FROM PUBLIC;
