-- Decides what becomes of a held job whose claim ends without success. No other code decides this.
--
--   cause          set by                               from              attempt   next
--   failed         its worker, or a plain client        claimed, running  spent     later, or failed
--   timed out      the sweep                            running           spent     later, or failed
--   stalled        the sweep, if fail_stalled is set    running           spent     later, or failed
--   cancel overdue the sweep                            running           spent     cancelled
--   lease passed   the sweep (unregistered holder)      claimed, running  spent     now, or failed
--   recovered      a plain client                       claimed, running  spent     now, or failed
--   worker died    the sweep, or a plain client         running           spent     now, or failed; crashes + 1
--   worker died    the sweep, or a plain client         started ahead     refunded  now; interruptions + 1
--   worker died    the sweep, or a plain client         claimed           refunded  now
--   crashed        its worker (a child process died)    running           spent     now, or failed; crashes + 1
--   cancelled      its worker                           claimed, running  spent     cancelled
--   released       its worker                           claimed           refunded  now
--   released       its worker                           started ahead     refunded  now
--   interrupted    its worker, at the end of the grace  running           refunded  now, a bounded number of times
--   interrupted    its worker, at the end of the grace  claimed           refunded  now
--   snoozed        its worker                           running           refunded  at the time that it asked for
--
-- Started ahead is a running job of which no started_at is noted: it waits in its worker, or has just begun.
--
-- A job whose cancellation was requested ends as cancelled, whatever the cause. There is no row if the cause does not fit the status.
-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.attempt_outcome(
    p_job howdah.live,
    p_cause text,
    p_error text,
    p_traceback text,
    p_run_at timestamptz,
    p_give_up boolean,
    p_exception text DEFAULT NULL
) RETURNS TABLE (
    status varchar, run_at timestamptz, error text, refund int, crashes int, interruptions int, entry jsonb, note jsonb
)
LANGUAGE sql STABLE
AS $$
    SELECT
        decided.status,
        CASE
            WHEN p_cause NOT IN ('failed', 'timed out', 'stalled', 'snoozed') OR decided.status <> 'pending' THEN p_job.run_at
            ELSE coalesce(p_run_at, howdah.clock() + coalesce(
                howdah.retry_delay(p_job.retry_policy, p_job.attempts),
                howdah.retry_delay('{"kind": "exponential", "delay": 2, "factor": 2, "max": 3600, "jitter": 0.2}', p_job.attempts)
            ))
        END,
        message.error,
        CASE WHEN verdict.refunded AND decided.status = 'pending' THEN 1 ELSE 0 END,
        counted.crashes,
        counted.interruptions,
        CASE WHEN p_cause <> 'cancelled' AND message.error IS NOT NULL THEN jsonb_strip_nulls(jsonb_build_object(
            'attempt', p_job.attempts, 'token', p_job.token, 'at', howdah.clock(), 'worker', p_job.worker_id,
            'started_at', howdah.begun_at(p_job.status, p_job.started_at, p_job.claimed_at), 'kind', p_cause, 'error', message.error, 'traceback', left(p_traceback, 1000000),
            'exception', left(p_exception, 1000)
        )) END,
        -- No event for a job that was released before it started, or that put itself off.
        CASE WHEN decided.status <> 'pending'
                OR (p_cause NOT IN ('released', 'snoozed') AND NOT (verdict.refunded AND p_job.status = 'claimed'))
        THEN jsonb_strip_nulls(jsonb_build_object(
            'cause', p_cause, 'worker', p_job.worker_id, 'started_at', howdah.begun_at(p_job.status, p_job.started_at, p_job.claimed_at), 'error', message.error
        )) END
    FROM (
        SELECT
            p_job.crashes + CASE
                WHEN p_cause IN ('worker died', 'crashed') AND p_job.status = 'running' AND NOT known.may_not_have_begun THEN 1 ELSE 0
            END AS crashes,
            p_job.interruptions + CASE
                WHEN (p_cause = 'interrupted' AND p_job.status = 'running') OR known.may_not_have_begun THEN 1 ELSE 0
            END AS interruptions,
            known.may_not_have_begun
        FROM (
            -- Once only: from then on, the job is noted before it begins. Otherwise a job that kills its workers would never be found.
            SELECT p_cause = 'worker died' AND p_job.status = 'running' AND p_job.started_at IS NULL
                AND p_job.interruptions = 0 AND p_job.attempts < p_job.max_attempts AS may_not_have_begun
        ) AS known
    ) AS counted
    CROSS JOIN howdah.settings AS s
    LEFT JOIN howdah.types AS t ON t.job_type = p_job.job_type
    CROSS JOIN LATERAL (
        SELECT p_cause IN ('released', 'snoozed') OR counted.may_not_have_begun
            OR (p_cause IN ('worker died', 'interrupted') AND p_job.status = 'claimed')
            OR (p_cause = 'interrupted' AND counted.interruptions <= s.max_interruptions) AS refunded
    ) AS verdict
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN p_cause = 'cancelled' OR p_job.cancel_requested_at IS NOT NULL THEN 'cancelled'
            WHEN verdict.refunded THEN 'pending'
            WHEN p_give_up OR p_job.attempts >= p_job.max_attempts THEN 'failed'
            WHEN counted.crashes > p_job.crashes AND counted.crashes >= coalesce(t.max_crashes, s.max_crashes) THEN 'failed'
            ELSE 'pending'
        END::varchar AS status
    ) AS decided
    CROSS JOIN LATERAL (
        SELECT CASE WHEN n.times = 1 THEN 'once' ELSE format('%s times', n.times) END AS in_words
        FROM (SELECT CASE WHEN p_cause = 'interrupted' THEN counted.interruptions ELSE counted.crashes END AS times) AS n
    ) AS occurred
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN p_cause = 'worker died' AND p_job.status = 'running' AND NOT counted.may_not_have_begun THEN
                format('worker %s died while it ran the job (worker died %s)', p_job.worker_id, occurred.in_words)
            WHEN p_cause = 'crashed' THEN
                format('%s (worker died %s)', coalesce(left(p_error, 1000000), 'the process that ran the job died'), occurred.in_words)
            WHEN p_cause = 'interrupted' AND p_job.status = 'running' AND counted.interruptions > s.max_interruptions THEN
                format('interrupted %s by workers that stopped', occurred.in_words)
            WHEN p_cause = 'lease passed' THEN
                format('the lease of worker %s expired', coalesce(p_job.worker_id, '(unnamed)'))
            WHEN p_cause = 'recovered' AND decided.status = 'failed' THEN
                format('recovered from worker %s, with no attempt left', coalesce(p_job.worker_id, '(unnamed)'))
            WHEN p_cause = 'timed out' THEN format('timed out after %s s', trim_scale(extract(epoch FROM coalesce(p_job.timeout, t.timeout))))
            WHEN p_cause = 'stalled' THEN format(
                'stalled: nothing was reported for %s s',
                round(extract(epoch FROM howdah.clock())::numeric - coalesce(howdah.number_in(p_job.progress_report -> 'at'), 0))
            )
            WHEN p_cause = 'failed' THEN coalesce(left(p_error, 1000000), 'failed without an error message')
            WHEN p_cause = 'cancelled' THEN left(p_error, 1000000)
        END AS error
    ) AS message
    WHERE CASE p_cause
        WHEN 'crashed' THEN p_job.status = 'running'
        WHEN 'released' THEN p_job.status = 'claimed' OR (p_job.status = 'running' AND p_job.started_at IS NULL)
        WHEN 'snoozed' THEN p_job.status = 'running'
        WHEN 'timed out' THEN p_job.status = 'running'
        WHEN 'stalled' THEN p_job.status = 'running'
        WHEN 'cancel overdue' THEN p_job.status = 'running' AND p_job.cancel_requested_at IS NOT NULL
        ELSE p_job.status IN ('claimed', 'running')
    END
$$;
COMMENT ON FUNCTION howdah.attempt_outcome IS
    'Decides what becomes of a held job whose claim ends without success: its next status and due time, its error, and the event. Internal.';
REVOKE ALL ON FUNCTION howdah.attempt_outcome FROM PUBLIC;
