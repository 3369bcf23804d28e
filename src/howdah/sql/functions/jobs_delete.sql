CREATE OR REPLACE FUNCTION howdah.jobs_delete() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_finished_at timestamptz;
BEGIN
    IF OLD.status IN ('pending', 'claimed', 'running') THEN
        RAISE EXCEPTION 'job % is %: a job that has not ended cannot be deleted', OLD.id, OLD.status USING
            ERRCODE = 'JQ005', HINT = 'Cancel it first: cancel(ARRAY[id]).';
    END IF;
    DELETE FROM howdah.archive AS a WHERE a.id = OLD.id RETURNING a.finished_at INTO v_finished_at;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    DELETE FROM howdah.events AS e WHERE e.job_id = OLD.id;
    INSERT INTO howdah.archive_counts (day, job_type, status, jobs)
    VALUES ((v_finished_at AT TIME ZONE 'UTC')::date, OLD.job_type, OLD.status, -1);
    RETURN OLD;
END
$$;
COMMENT ON FUNCTION howdah.jobs_delete IS 'The door for plain SQL clients: DELETE FROM jobs, for jobs that have ended.';
REVOKE ALL ON FUNCTION howdah.jobs_delete FROM PUBLIC;
DO $$
BEGIN
    -- Not OR REPLACE: that would wait for everybody who writes, and make the next ones wait.
    IF NOT EXISTS (
        SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'jobs_delete'
    ) THEN
        CREATE TRIGGER jobs_delete INSTEAD OF DELETE ON howdah.jobs
            FOR EACH ROW EXECUTE FUNCTION howdah.jobs_delete();
    END IF;
END
$$;
