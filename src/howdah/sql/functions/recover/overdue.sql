-- What the sweep looks for, by cause. It raises no error, whatever a plain client has written: a time is compared with the clock minus
-- a span, because a sum with the time might be out of range. It has no search_path of its own, so that the planner can inline it.
-- Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.overdue(p_job howdah.live, p_cause text, p_now timestamptz, p_may_judge boolean)
RETURNS TABLE (token bigint)
LANGUAGE sql STABLE
AS $$
    SELECT p_job.token
    WHERE CASE p_cause
        -- A claim that was in progress while its worker was declared dead, or restarted.
        WHEN 'worker died' THEN p_may_judge AND p_job.lease_until IS NULL AND NOT EXISTS (
            SELECT FROM howdah.workers AS w
            WHERE w.worker_id = p_job.worker_id AND w.generation = coalesce(p_job.generation, w.generation)
        )
        WHEN 'lease passed' THEN p_job.lease_until < howdah.lease_clock()
        -- A job that was added before its type had a timeout has no deadline of its own.
        WHEN 'timed out' THEN p_job.status = 'running' AND coalesce(
            p_job.deadline_at < howdah.clock(),
            p_job.started_at < howdah.clock()
                - (SELECT howdah.clamp_interval(t.timeout) FROM howdah.types AS t WHERE t.job_type = p_job.job_type)
        )
        WHEN 'cancel overdue' THEN p_job.status = 'running' AND p_job.cancel_requested_at
            < howdah.clock() - (SELECT howdah.clamp_interval(s.cancel_grace) FROM howdah.settings AS s)
        WHEN 'stalled' THEN p_may_judge AND p_job.status = 'running' AND p_job.progress_report -> 'token' = to_jsonb(p_job.token)
            AND howdah.number_in(p_job.progress_report -> 'stalls') < extract(epoch FROM howdah.clock())
            AND EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = p_job.job_type AND t.fail_stalled)
            -- Its reports may not have arrived: its worker was out of touch, or its event loop is blocked.
            AND NOT EXISTS (
                SELECT FROM howdah.workers AS w WHERE w.worker_id = p_job.worker_id AND (
                    coalesce(extract(epoch FROM p_now - w.fresh_since)
                        < extract(epoch FROM howdah.clock()) - howdah.number_in(p_job.progress_report -> 'at'), true)
                    OR w.loop_lag > interval '5 seconds'
                )
            )
    END
$$;
COMMENT ON FUNCTION howdah.overdue IS 'The token of a held job, if the sweep must end its claim for this cause; otherwise no row. Internal.';
REVOKE ALL ON FUNCTION howdah.overdue FROM PUBLIC;
