CREATE OR REPLACE FUNCTION howdah.fire_schedule(
    p_name varchar, p_expected timestamptz, p_instants timestamptz[], p_next_run_at timestamptz DEFAULT NULL
) RETURNS TABLE (instant timestamptz, job_id uuid, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '1s'
AS $$
#variable_conflict use_column
DECLARE
    v_schedule howdah.schedules;
    v_last_run_at timestamptz;
    v_last_job_id uuid;
BEGIN
    -- The fence. A second caller waits here for the first, and then finds that next_run_at has changed.
    SELECT s.* INTO v_schedule FROM howdah.schedules AS s
    WHERE s.name = p_name AND s.next_run_at = p_expected AND s.paused_at IS NULL
    FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    FOREACH instant IN ARRAY coalesce(p_instants, '{}') LOOP
        SELECT j.job_id, j.created INTO job_id, created FROM howdah.add_scheduled(v_schedule, instant) AS j;
        IF created THEN
            v_last_run_at := instant;
            v_last_job_id := job_id;
        END IF;
        RETURN NEXT;
    END LOOP;
    UPDATE howdah.schedules AS s SET
        next_run_at = p_next_run_at,
        next_run_known = true,
        last_run_at = coalesce(v_last_run_at, s.last_run_at),
        last_job_id = coalesce(v_last_job_id, s.last_job_id)
    WHERE s.name = p_name;
END
$$;
COMMENT ON FUNCTION howdah.fire_schedule IS
    'Adds a job for each instant and sets when the schedule fires next (NULL: never again), in one step. Does nothing if next_run_at is no'
    ' longer p_expected, or the schedule is paused: so each fire happens once, however many workers try. If jobs must not overlap, created'
    ' is false for an instant that was left out, and job_id is the live job.';
REVOKE ALL ON FUNCTION howdah.fire_schedule FROM PUBLIC;
