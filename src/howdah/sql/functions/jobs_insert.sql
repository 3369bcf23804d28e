CREATE OR REPLACE FUNCTION howdah.jobs_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type howdah.types;
    v_held boolean;
BEGIN
    PERFORM howdah.check_job_type(NEW.job_type);
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = NEW.job_type;
    NEW.id := coalesce(NEW.id, howdah.new_id());
    NEW.status := coalesce(NEW.status, 'pending');
    NEW.priority := coalesce(NEW.priority, v_type.priority, 100);
    NEW.data := coalesce(NEW.data, '{}');
    NEW.progress := coalesce(NEW.progress, 0);
    NEW.events_count := coalesce(NEW.events_count, 0);
    NEW.attempts := coalesce(NEW.attempts, 0);
    NEW.max_attempts := coalesce(NEW.max_attempts, v_type.max_attempts, 3);
    NEW.created_at := coalesce(NEW.created_at, howdah.clock());
    v_held := NEW.status IN ('claimed', 'running');

    IF NEW.status NOT IN ('pending', 'claimed', 'running', 'completed', 'failed', 'cancelled') THEN
        RAISE EXCEPTION '% is not a status', NEW.status USING ERRCODE = 'check_violation', CONSTRAINT = 'valid_status';
    END IF;

    IF NEW.status IN ('pending', 'claimed', 'running') THEN
        INSERT INTO howdah.live (
            id, token, run_at, first_due_at, created_at, claimed_at, started_at, lease, lease_until, deadline_at,
            expires_at, timeout, priority, attempts, max_attempts, progress, events_count, job_type, status, data,
            order_key, worker_id, current_stage, last_error, retry_policy
        ) VALUES (
            NEW.id, CASE WHEN v_held THEN 1 ELSE 0 END,
            -- A plain client's order is by created_at, but created_at does not put a job off.
            least(NEW.created_at, howdah.clock()), least(NEW.created_at, howdah.clock()), NEW.created_at,
            CASE WHEN v_held THEN coalesce(NEW.claimed_at, howdah.clock()) ELSE NEW.claimed_at END,
            NEW.started_at, CASE WHEN v_held THEN interval '10 minutes' END,
            CASE WHEN v_held THEN howdah.lease_clock() + interval '10 minutes' END,
            CASE WHEN NEW.status = 'running' THEN howdah.clock() + v_type.timeout END,
            howdah.clock() + v_type.expires_in, v_type.timeout,
            NEW.priority, NEW.attempts, NEW.max_attempts, NEW.progress, NEW.events_count, NEW.job_type, NEW.status,
            NEW.data, CASE WHEN v_type.ordered THEN '' END, NEW.worker_id, NEW.current_stage, NEW.last_error,
            v_type.retry_policy
        );
    ELSE
        INSERT INTO howdah.archive (
            id, token, finished_at, run_at, first_due_at, created_at, claimed_at, started_at, completed_at, timeout,
            priority, attempts, max_attempts, crashes, interruptions, progress, events_count, job_type, status, data,
            worker_id, current_stage, last_error
        ) VALUES (
            NEW.id, 1, howdah.clock(), NEW.created_at, NEW.created_at, NEW.created_at, NEW.claimed_at,
            NEW.started_at, NEW.completed_at, v_type.timeout, NEW.priority, NEW.attempts, NEW.max_attempts, 0, 0,
            NEW.progress, NEW.events_count, NEW.job_type, NEW.status, NEW.data, NEW.worker_id, NEW.current_stage,
            NEW.last_error
        );
        INSERT INTO howdah.archive_counts (day, job_type, status, jobs)
        VALUES ((howdah.clock() AT TIME ZONE 'UTC')::date, NEW.job_type, NEW.status, 1);
    END IF;
    -- After the INSERT, because that may have waited for the very transaction that ended a job of this id.
    IF 1 < (SELECT count(*) FROM howdah.job_details AS d WHERE d.id = NEW.id) THEN
        RAISE EXCEPTION 'there is a job % already', NEW.id USING ERRCODE = 'unique_violation', CONSTRAINT = 'live_pkey';
    END IF;
    IF NEW.status = 'pending' THEN
        PERFORM howdah.wake(ARRAY[NEW.job_type]);
    END IF;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.jobs_insert IS 'The door for plain SQL clients: INSERT INTO jobs.';
REVOKE ALL ON FUNCTION howdah.jobs_insert FROM PUBLIC;
DO $$
BEGIN
    -- Not OR REPLACE: that would wait for everybody who writes, and make the next ones wait.
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'jobs_insert'
    ) THEN
        CREATE TRIGGER jobs_insert INSTEAD OF INSERT ON howdah.jobs
            FOR EACH ROW EXECUTE FUNCTION howdah.jobs_insert();
    END IF;
END
$$;
