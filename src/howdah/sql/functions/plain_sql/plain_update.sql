-- Decides what the UPDATE of a plain client means, by the state of the row. The row is locked, and OLD is its current state: if the
-- statement had to wait, PostgreSQL evaluated its WHERE again. The client gives no token, so a statement with the worker_id or the
-- attempts of an older claim (an ORM that saves a whole row) is refused because of these. Refused means: 0 rows, as if the WHERE did
-- not match.
--
-- The columns of the statement are written as given. In addition, this maintains the claim: token, lease, deadline, errors, retry.
-- A job that ends stays in its table until plain_updated moves it, at the end of the statement.
CREATE OR REPLACE FUNCTION howdah.plain_update() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- It runs for each row; without this, each session would make a custom plan for each of the first five.
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_was_held boolean := OLD.status IN ('claimed', 'running');
    v_is_held boolean := NEW.status IN ('claimed', 'running');
    v_names_error boolean := coalesce(NEW.names_error, false);
    v_is_registered boolean := false;
    v_is_alive boolean := false;
    v_generation bigint;
    v_job howdah.live;
    v_cause text;
    v_outcome record;
    v_note jsonb;
BEGIN
    NEW.names_error := NULL;
    IF NEW.id <> OLD.id THEN
        RAISE EXCEPTION 'the id of a job cannot be changed' USING ERRCODE = 'JQ005';
    ELSIF NEW.job_type IS DISTINCT FROM OLD.job_type THEN
        PERFORM howdah.check_job_type(NEW.job_type);
        NEW.flow_key := NULL;
        NEW := howdah.with_flow(NEW);
        IF v_was_held AND v_is_held AND NEW.flow_key IS NOT NULL THEN
            -- It would run outside of the limits and the order of this type.
            RETURN NULL;
        END IF;
    END IF;
    IF pg_column_size(NEW.data) > 65536 AND NEW.data IS DISTINCT FROM OLD.data THEN
        PERFORM howdah.check_size(ARRAY[NEW.data], 'data');
    END IF;
    NEW.progress := coalesce(NEW.progress, 0);
    NEW.events_count := coalesce(NEW.events_count, 0);
    NEW.attempts := coalesce(NEW.attempts, 0);
    NEW.max_attempts := coalesce(NEW.max_attempts, 3);
    NEW.created_at := coalesce(NEW.created_at, OLD.created_at);
    IF NEW.status IS NULL OR NEW.status NOT IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled') THEN
        -- The constraint of the table rejects it.
        RETURN NEW;
    END IF;

    IF NOT v_was_held AND NOT v_is_held THEN
        IF NEW.status IN ('completed', 'failed')
            OR (NEW.status = 'pending' AND NEW.last_error <> coalesce(OLD.last_error, '') AND v_names_error)
        THEN
            -- A late Complete or Fail: the job was recovered before.
            RETURN NULL;
        ELSIF NEW.status = 'cancelled' THEN
            NEW.token := howdah.next_token(OLD.token);
        END IF;
        RETURN NEW;
    ELSIF NOT v_was_held THEN
        IF NOT howdah.may_be_claimed(NEW) THEN
            RETURN NULL;
        ELSIF NEW.flow_key IS NOT NULL THEN
            -- The type may have got or lost its order since the job was added.
            NEW := howdah.with_flow(NEW);
        END IF;
        NEW.token := howdah.next_token(OLD.token);
    ELSE
        SELECT w.heartbeat_at >= howdah.lease_clock() - w.lease, true INTO v_is_alive, v_is_registered
        FROM howdah.workers AS w WHERE w.worker_id = OLD.worker_id;
        v_is_alive := coalesce(v_is_alive, false);
        v_is_registered := coalesce(v_is_registered, false);
    END IF;

    IF v_is_held THEN
        NEW.line := NULL;
        IF v_was_held AND (
            NEW.attempts <> OLD.attempts OR NEW.worker_id IS DISTINCT FROM coalesce(OLD.worker_id, NEW.worker_id)
            OR (OLD.status = 'running' AND NEW.status = 'claimed')
        ) THEN
            -- A second claim of a held job.
            RETURN NULL;
        END IF;
        SELECT w.generation INTO v_generation FROM howdah.workers AS w WHERE w.worker_id = NEW.worker_id;
        IF NOT FOUND THEN
            NEW.lease := coalesce(OLD.lease, interval '10 minutes');
            NEW.lease_until := howdah.lease_clock() + NEW.lease;
        ELSIF NOT v_was_held THEN
            NEW.generation := v_generation;
        END IF;
        IF NEW.status = 'running' AND OLD.status <> 'running' THEN
            NEW.deadline_at := howdah.clock() + OLD.timeout;
        END IF;
        IF v_was_held AND NEW.progress <> OLD.progress THEN
            NEW.progress_report := howdah.merged_progress(OLD.progress_report, OLD.token, OLD.attempts, NEW.started_at, howdah.clock(), NEW.progress);
        END IF;
        RETURN NEW;
    END IF;

    -- The claim ends.
    IF NEW.attempts < OLD.attempts OR NEW.worker_id <> OLD.worker_id OR (NEW.status = 'pending' AND v_is_alive) THEN
        RETURN NULL;
    ELSIF NEW.status = 'cancelled' AND OLD.status = 'running' AND v_is_alive THEN
        -- Its worker is asked to stop, as by cancel.
        NEW.status := OLD.status;
        NEW.worker_id := OLD.worker_id;
        NEW.claimed_at := OLD.claimed_at;
        NEW.cancel_requested_at := coalesce(OLD.cancel_requested_at, howdah.clock());
        IF OLD.cancel_requested_at IS NULL AND howdah.may_notify() THEN
            PERFORM pg_notify(howdah.channel(), 'cancel ' || OLD.id);
        END IF;
        RETURN NEW;
    END IF;
    NEW.token := howdah.next_token(OLD.token);
    NEW.lease := NULL;
    NEW.lease_until := NULL;
    NEW.deadline_at := NULL;
    NEW.generation := NULL;
    v_note := jsonb_build_object(
        'cause', NEW.status, 'worker', OLD.worker_id, 'started_at', howdah.begun_at(OLD.status, OLD.started_at, OLD.claimed_at)
    );
    IF NEW.status IN ('pending', 'failed') THEN
        v_cause := CASE
            WHEN NEW.status = 'failed' OR v_names_error THEN 'failed'
            WHEN v_is_registered THEN 'worker died'
            ELSE 'recovered'
        END;
        v_job := OLD;
        v_job.attempts := NEW.attempts;
        v_job.max_attempts := NEW.max_attempts;
        SELECT * INTO v_outcome FROM howdah.attempt_outcome(
            v_job, v_cause, NEW.last_error, NULL,
            -- Without a retry policy, the job of a plain client is due again at once, as plain clients expect.
            howdah.clock() + howdah.retry_delay(
                CASE WHEN howdah.is_retry_policy(OLD.retry_policy) THEN OLD.retry_policy ELSE '{"kind": "none"}' END, NEW.attempts
            ),
            NEW.status = 'failed'
        );
        NEW.status := v_outcome.status;
        NEW.run_at := v_outcome.run_at;
        NEW.attempts := greatest(NEW.attempts - v_outcome.refund, 0);
        NEW.crashes := v_outcome.crashes;
        NEW.interruptions := v_outcome.interruptions;
        NEW.errors := howdah.with_error(OLD.errors, v_outcome.entry);
        NEW := howdah.with_flow(NEW);
        IF v_cause <> 'failed' THEN
            NEW.last_error := coalesce(v_outcome.error, NEW.last_error);
        END IF;
        v_note := v_outcome.note || CASE WHEN NEW.status = 'pending' THEN jsonb_build_object('run_at', NEW.run_at) ELSE '{}' END;
    ELSIF NEW.status = 'completed' AND OLD.progress_report IS NULL THEN
        -- A job that never reported anything gets no event at its end.
        v_note := NULL;
    END IF;
    IF v_note IS NOT NULL THEN
        NEW.progress_report := howdah.with_seq(coalesce(OLD.progress_report, '{}'), 1) - 'eta'
            || CASE WHEN NEW.status = 'completed' THEN jsonb_build_object('percent', NEW.progress) ELSE '{}' END;
        INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
        VALUES (
            howdah.clock(), OLD.id, OLD.token, howdah.seq_of(NEW.progress_report), OLD.attempts, NEW.job_type, 'status', NEW.status,
            jsonb_strip_nulls(v_note)
        );
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.plain_update IS 'Decides what the UPDATE of a live job by a plain client means, by the state of the row.';
REVOKE ALL ON FUNCTION howdah.plain_update FROM PUBLIC;
