-- The key is set by a separate UPDATE: enqueue rejects keys of this form, with which any producer could block a schedule. The caller has
-- locked the row of the schedule, so nothing else adds a job with this key.
CREATE OR REPLACE FUNCTION howdah.add_scheduled(p_schedule howdah.schedules, p_instant timestamptz, OUT job_id uuid, OUT created boolean)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Makes JSON contain timestamps in UTC.
SET timezone = 'UTC'
AS $$
DECLARE
    v_key text := CASE WHEN NOT p_schedule.overlap THEN 'schedule:' || p_schedule.name END;
BEGIN
    SELECT j.id, false INTO job_id, created FROM howdah.live AS j WHERE j.job_type = p_schedule.job_type AND j.key = v_key;
    IF FOUND THEN
        RETURN;
    END IF;
    SELECT j.id, true INTO job_id, created FROM howdah.enqueue(
        p_job_type => p_schedule.job_type,
        p_data => p_schedule.data,
        p_priority => p_schedule.priority,
        p_run_at => p_instant,
        p_max_attempts => p_schedule.max_attempts,
        p_timeout => p_schedule.timeout,
        p_retry_policy => p_schedule.retry_policy,
        p_meta => jsonb_build_object('schedule', p_schedule.name, 'scheduled_for', p_instant),
        -- A fire that is left out would not be noticed, and one job is not what fills a type.
        p_bounded => false
    ) AS j;
    IF v_key IS NOT NULL THEN
        UPDATE howdah.live AS j SET key = v_key, own_write = NOT j.own_write WHERE j.id = job_id;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.add_scheduled IS
    'Adds a job of a schedule that the caller has locked. If its jobs must not overlap and one is live, returns that one, with created = false.'
    ' Internal.';
REVOKE ALL ON FUNCTION howdah.add_scheduled FROM PUBLIC;
