-- The door for plain SQL clients. They name no token, so what their statement saw takes its place: the
-- row is locked, and changed only if status, attempts and claimed_at are still those (no two claims of
-- a job share a claimed_at). A view over two tables cannot be locked by FOR UPDATE, so this look is also
-- what keeps a client that claims with its own SKIP LOCKED from getting a job that another has got.
CREATE OR REPLACE FUNCTION howdah.jobs_update() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_job howdah.live;
    v_was_held boolean := OLD.status IN ('claimed', 'running');
    v_is_held boolean := NEW.status IN ('claimed', 'running');
    v_holder_beats boolean;
    v_lease interval;
    v_token bigint;
    -- RecoverStaleJobs and its like, as opposed to a Fail, which has something to say (be it the same as before).
    v_is_recovery boolean := v_was_held AND NEW.status = 'pending'
        AND NEW.last_error IS NOT DISTINCT FROM OLD.last_error AND current_query() !~* 'last_error\s*=';
    v_is_failure boolean := v_was_held AND NEW.status IN ('pending', 'failed') AND NOT v_is_recovery;
    v_is_noted boolean := v_was_held AND NOT v_is_held AND NEW.status <> 'completed';
BEGIN
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'the id of a job cannot be changed' USING ERRCODE = 'JQ005';
    ELSIF NEW.status NOT IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled') THEN
        RAISE EXCEPTION '% is not a status', NEW.status USING ERRCODE = 'check_violation', CONSTRAINT = 'valid_status';
    END IF;

    IF v_is_recovery THEN
        SELECT * INTO v_job FROM howdah.live AS j WHERE j.id = OLD.id FOR UPDATE SKIP LOCKED;
    ELSE
        SELECT * INTO v_job FROM howdah.live AS j WHERE j.id = OLD.id FOR UPDATE;
    END IF;
    IF NOT FOUND THEN
        IF OLD.status NOT IN ('pending', 'claimed', 'running') THEN
            RAISE NOTICE 'job % has ended as %: nothing was changed', OLD.id, OLD.status
                USING HINT = 'A new life of it begins with retry(ARRAY[id]).';
        END IF;
        RETURN NULL;
    ELSIF (v_job.status, v_job.attempts) IS DISTINCT FROM (OLD.status, OLD.attempts)
        OR (v_was_held AND v_job.claimed_at IS DISTINCT FROM OLD.claimed_at)
    THEN
        -- Whoever claims with RETURNING, or asks for pending jobs, sees that it did not get this one. Whoever
        -- selected it before, and believes that FOR UPDATE has locked it, would run it too.
        IF NOT v_was_held AND v_is_held AND current_query() !~* 'returning|pending' THEN
            RAISE EXCEPTION 'job % was claimed by somebody else', OLD.id USING
                ERRCODE = 'JQ005', HINT = 'Claim with claim_job_batch, or with one UPDATE … RETURNING.';
        END IF;
        RETURN NULL;
    END IF;

    v_holder_beats := v_was_held AND EXISTS (
        SELECT FROM howdah.workers AS w
        WHERE w.worker_id = v_job.worker_id AND w.heartbeat_at >= howdah.lease_clock() - w.lease
    );

    IF NOT v_was_held AND v_is_held THEN
        IF NOT howdah.may_be_claimed(v_job) THEN
            RETURN NULL;
        END IF;
    ELSIF v_was_held AND v_is_held THEN
        IF NEW.worker_id IS DISTINCT FROM OLD.worker_id OR NEW.attempts <> OLD.attempts THEN
            -- Not passed over in silence: a client that selects first and updates then would run it too.
            RAISE EXCEPTION 'job % is held by worker %', OLD.id, OLD.worker_id USING
                ERRCODE = 'JQ005', HINT = 'Claim with claim_job_batch, or with one UPDATE … RETURNING.';
        ELSIF OLD.status = 'running' AND NEW.status = 'claimed' THEN
            RETURN NULL;
        END IF;
    ELSIF v_is_recovery AND v_holder_beats THEN
        RETURN NULL;
    ELSIF v_is_recovery AND EXISTS (SELECT FROM howdah.workers AS w WHERE w.worker_id = v_job.worker_id) THEN
        PERFORM howdah.settle('worker died', ARRAY[v_job.id], ARRAY[v_job.token]);
        RETURN NEW;
    ELSIF OLD.status = 'pending' AND NEW.status NOT IN ('pending', 'cancelled') THEN
        RAISE NOTICE 'job % is pending, so it cannot become %: nothing was changed', OLD.id, NEW.status;
        RETURN NULL;
    ELSIF OLD.status = 'pending' AND NEW.status = 'pending' AND NEW.last_error IS DISTINCT FROM OLD.last_error THEN
        -- A Fail that comes after its job was taken back.
        RETURN NULL;
    END IF;

    IF NEW.status = 'cancelled' AND OLD.status = 'running' AND v_holder_beats THEN
        UPDATE howdah.live AS j SET cancel_requested_at = coalesce(j.cancel_requested_at, howdah.clock())
        WHERE j.id = OLD.id;
        IF v_job.cancel_requested_at IS NULL AND pg_notification_queue_usage() < 0.5 THEN
            PERFORM pg_notify(howdah.channel(), 'cancel ' || OLD.id);
        END IF;
        NEW.status := 'running';
        RETURN NEW;
    END IF;
    -- As everywhere: whoever was asked to stop, and stops, is cancelled.
    IF (v_is_failure OR v_is_recovery) AND v_job.cancel_requested_at IS NOT NULL THEN
        NEW.status := 'cancelled';
    END IF;
    IF NEW.job_type <> OLD.job_type THEN
        PERFORM howdah.check_job_type(NEW.job_type);
    END IF;
    IF v_is_held AND NOT EXISTS (SELECT FROM howdah.workers AS w WHERE w.worker_id = NEW.worker_id) THEN
        v_lease := coalesce(v_job.lease, interval '10 minutes');
    END IF;
    v_token := v_job.token;
    UPDATE howdah.live AS j SET
        job_type = NEW.job_type,
        priority = coalesce(NEW.priority, j.priority),
        data = coalesce(NEW.data, j.data),
        progress = CASE WHEN NEW.progress IS DISTINCT FROM OLD.progress THEN coalesce(NEW.progress, 0) ELSE j.progress END,
        current_stage = CASE WHEN NEW.current_stage IS DISTINCT FROM OLD.current_stage THEN NEW.current_stage ELSE j.current_stage END,
        events_count = CASE WHEN NEW.events_count IS DISTINCT FROM OLD.events_count THEN coalesce(NEW.events_count, 0) ELSE j.events_count END,
        attempts = coalesce(NEW.attempts, j.attempts),
        max_attempts = coalesce(NEW.max_attempts, j.max_attempts),
        created_at = coalesce(NEW.created_at, j.created_at),
        started_at = CASE
            WHEN NEW.started_at IS DISTINCT FROM OLD.started_at THEN NEW.started_at
            WHEN OLD.status <> 'running' AND NEW.status = 'running' THEN howdah.clock()
            ELSE j.started_at
        END,
        last_error = CASE WHEN NEW.last_error IS DISTINCT FROM OLD.last_error THEN NEW.last_error ELSE j.last_error END,
        errors = howdah.with_error(j.errors, CASE
            WHEN v_is_failure THEN
                jsonb_strip_nulls(jsonb_build_object(
                    'attempt', j.attempts, 'token', j.token, 'at', howdah.clock(), 'worker', j.worker_id,
                    'started_at', j.started_at, 'kind', 'failed', 'error', coalesce(NEW.last_error, 'failed without an error message')
                ))
        END),
        status = CASE WHEN NEW.status IN ('pending', 'claimed', 'running') THEN NEW.status ELSE j.status END,
        -- Whoever held the job before is fenced, and so is whoever looked at it before it was claimed.
        token = j.token + CASE WHEN NEW.status <> OLD.status AND NOT (v_was_held AND v_is_held) THEN 1 ELSE 0 END,
        run_at = CASE
            WHEN v_is_failure THEN
                howdah.clock() + howdah.retry_delay(coalesce(j.retry_policy, '{"kind": "none"}'), j.attempts)
            ELSE j.run_at
        END,
        order_key = CASE
            WHEN NEW.status = 'pending'
            THEN (SELECT '' FROM howdah.types AS t WHERE t.job_type = NEW.job_type AND t.ordered)
            ELSE j.order_key
        END,
        worker_id = CASE WHEN v_is_held THEN NEW.worker_id WHEN NEW.status = 'pending' THEN NULL ELSE j.worker_id END,
        claimed_at = CASE
            WHEN NOT v_was_held AND v_is_held
            THEN greatest(coalesce(NEW.claimed_at, howdah.clock()), j.claimed_at + interval '1 microsecond')
            WHEN v_is_held THEN coalesce(NEW.claimed_at, j.claimed_at)
            ELSE j.claimed_at
        END,
        lease = v_lease,
        lease_until = howdah.lease_clock() + v_lease,
        report = CASE
            WHEN v_was_held AND v_is_held AND NEW.progress IS DISTINCT FROM OLD.progress
            THEN howdah.next_report(j.report, j.token, j.attempts, j.started_at, howdah.clock(), NEW.progress)
            WHEN v_is_noted THEN howdah.with_seq(coalesce(j.report, '{}'), 1) - 'eta'
            ELSE j.report
        END,
        deadline_at = CASE
            WHEN NOT v_is_held THEN NULL
            WHEN OLD.status <> 'running' AND NEW.status = 'running' THEN howdah.clock() + j.timeout
            ELSE j.deadline_at
        END
    WHERE j.id = OLD.id
    RETURNING j.* INTO v_job;
    IF v_is_noted THEN
        INSERT INTO howdah.events (at, job_id, token, seq, attempt, job_type, kind, name, data)
        VALUES (
            howdah.clock(), v_job.id, v_token, howdah.seq_of(v_job.report), v_job.attempts, v_job.job_type, 'status',
            NEW.status, jsonb_strip_nulls(jsonb_build_object(
                'cause', CASE WHEN NEW.status = 'cancelled' THEN 'cancelled' WHEN v_is_recovery THEN 'recovered' ELSE 'failed' END,
                'worker', OLD.worker_id, 'started_at', OLD.started_at,
                'error', CASE WHEN v_is_failure THEN v_job.last_error END,
                'run_at', CASE WHEN NEW.status = 'pending' THEN v_job.run_at END
            ))
        );
    END IF;

    CASE
        WHEN NEW.status = 'completed' THEN
            PERFORM howdah.complete(ARRAY[v_job.id], ARRAY[v_job.token]);
            NEW.progress := 100;
            NEW.completed_at := coalesce(NEW.completed_at, howdah.clock());
        WHEN NEW.status IN ('failed', 'cancelled') THEN
            PERFORM howdah.finish(ARRAY[v_job.id], ARRAY[NEW.status], p_noted => v_is_noted);
        ELSE
            PERFORM howdah.tell(ARRAY[v_job.job_type]);
            NEW.claimed_at := CASE WHEN v_is_held THEN v_job.claimed_at END;
            NEW.started_at := v_job.started_at;
            NEW.worker_id := v_job.worker_id;
            IF NEW.status = 'pending' AND v_job.run_at <= howdah.clock() + interval '2 seconds' THEN
                PERFORM howdah.wake(ARRAY[v_job.job_type]);
            END IF;
    END CASE;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.jobs_update IS 'The door for plain SQL clients: UPDATE jobs.';
REVOKE ALL ON FUNCTION howdah.jobs_update FROM PUBLIC;
DO $$
BEGIN
    -- Not OR REPLACE: that would wait for everybody who writes, and make the next ones wait.
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'jobs_update'
    ) THEN
        CREATE TRIGGER jobs_update INSTEAD OF UPDATE ON howdah.jobs
            FOR EACH ROW EXECUTE FUNCTION howdah.jobs_update();
    END IF;
END
$$;
