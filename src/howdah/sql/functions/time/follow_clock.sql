-- After the clock went back, jobs that were due stay due, and periods do not become longer. Times that a person may have chosen (run_at
-- of a job that was never tried, expires_at, a cron schedule) are left as they are.
CREATE OR REPLACE FUNCTION howdah.follow_clock(p_now timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_latest timestamptz;
    v_back interval;
BEGIN
    SELECT m.latest INTO v_latest FROM howdah.clock_mark AS m FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- Another sweep holds it, and this one does not wait.
        RETURN;
    END IF;
    -- Overlapping sweeps, and small corrections of the clock, are no reason.
    IF v_latest > p_now + interval '1 second' THEN
        v_back := v_latest - p_now;
        UPDATE howdah.workers AS w SET
            heartbeat_at = least(w.heartbeat_at - v_back, p_now), fresh_since = least(w.fresh_since, p_now)
        WHERE w.worker_id IN (
            -- A locked worker is sending its heartbeat right now.
            SELECT f.worker_id FROM howdah.workers AS f WHERE f.heartbeat_at > p_now + interval '1 second' FOR UPDATE SKIP LOCKED
        );
        UPDATE howdah.live AS j SET
            -- It is due as soon as it is pending again.
            run_at = least(j.run_at, howdah.clock()),
            first_due_at = least(j.first_due_at, howdah.clock()),
            claimed_at = least(j.claimed_at - v_back, howdah.clock()),
            -- An earlier one is not a matter of the clock, and may be the first time of all, of which nothing can be subtracted.
            started_at = CASE WHEN j.started_at > p_now THEN least(j.started_at - v_back, howdah.clock()) ELSE j.started_at END,
            cancel_requested_at = CASE WHEN j.cancel_requested_at IS NOT NULL THEN least(j.cancel_requested_at, howdah.clock()) END,
            lease_until = CASE WHEN j.lease_until IS NOT NULL THEN least(j.lease_until - v_back, p_now + j.lease) END,
            deadline_at = CASE WHEN j.deadline_at IS NOT NULL THEN least(j.deadline_at - v_back, p_now + j.timeout) END,
            own_write = NOT j.own_write
        WHERE j.id IN (
            SELECT h.id FROM howdah.live AS h
            WHERE h.status IN ('claimed', 'running') AND h.claimed_at > p_now + interval '1 second'
            FOR UPDATE SKIP LOCKED
        );
        UPDATE howdah.flow_keys AS k SET
            full_at = k.full_at - v_back,
            -- The next claim sees whether the key still has to wait.
            rests_until = CASE WHEN k.rests_until < 'infinity' THEN least(k.rests_until, howdah.clock()) ELSE k.rests_until END
        WHERE (k.job_type, k.flow_key) IN (
            SELECT f.job_type, f.flow_key FROM howdah.flow_keys AS f
            WHERE f.full_at > p_now OR (f.rests_until > p_now AND f.rests_until < 'infinity')
            FOR UPDATE SKIP LOCKED
        );
        UPDATE howdah.flow_types AS b SET full_at = b.full_at - v_back
        WHERE b.job_type IN (SELECT f.job_type FROM howdah.flow_types AS f WHERE f.full_at > p_now FOR UPDATE SKIP LOCKED);
        UPDATE howdah.flow_groups AS g SET full_at = g.full_at - v_back
        WHERE g.name IN (SELECT f.name FROM howdah.flow_groups AS f WHERE f.full_at > p_now FOR UPDATE SKIP LOCKED);
        UPDATE howdah.schedules AS s SET next_run_at = howdah.clock() + s.every
        WHERE s.every IS NOT NULL AND s.next_run_at > p_now + s.every AND s.next_run_at < 'infinity';
        UPDATE howdah.live AS j SET
            -- A job that waits for its next attempt keeps its remaining delay.
            run_at = CASE WHEN j.run_at <= greatest(v_latest, j.created_at) THEN least(j.run_at - v_back, howdah.clock()) ELSE j.run_at - v_back END,
            first_due_at = CASE WHEN j.first_due_at > p_now THEN least(j.first_due_at - v_back, howdah.clock()) ELSE j.first_due_at END,
            own_write = NOT j.own_write
        WHERE j.id IN (
            SELECT d.id FROM howdah.live AS d
            WHERE d.status = 'pending' AND d.run_at > p_now AND d.run_at < 'infinity'
                -- A job from before the clock went ahead keeps its own time.
                AND (d.attempts > 0 OR d.created_at > p_now AND d.run_at <= greatest(v_latest, d.created_at))
            FOR UPDATE SKIP LOCKED
        );
    END IF;
    UPDATE howdah.clock_mark AS m SET latest = p_now;
EXCEPTION
    -- A backlog too large to be moved within statement_timeout stays where it is, and the sweep continues.
    WHEN query_canceled THEN
        NULL;
    WHEN others THEN
        IF howdah.is_passing(SQLSTATE) THEN
            RAISE;
        END IF;
        RAISE WARNING 'the times of jobs and workers could not follow the clock: %', SQLERRM;
END
$$;
COMMENT ON FUNCTION howdah.follow_clock IS
    'Detects that the clock went back, and corrects times that are in the future only because of that. Part of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.follow_clock FROM PUBLIC;
