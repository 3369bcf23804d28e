CREATE OR REPLACE FUNCTION howdah.run_schedule(p_name varchar) RETURNS TABLE (job_id uuid, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_schedule howdah.schedules;
BEGIN
    SELECT s.* INTO v_schedule FROM howdah.schedules AS s WHERE s.name = p_name FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule %', p_name USING ERRCODE = 'JQ007';
    END IF;
    SELECT j.job_id, j.created INTO job_id, created FROM howdah.add_scheduled(v_schedule, howdah.clock()) AS j;
    IF created THEN
        UPDATE howdah.schedules AS s SET last_run_at = howdah.clock(), last_job_id = job_id WHERE s.name = p_name;
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.run_schedule IS
    'Adds one job of the schedule now, paused or not; its regular runs do not change. If jobs must not overlap and one is live, returns'
    ' that one, with created = false. SQLSTATE JQ007 if there is no schedule of this name.';
REVOKE ALL ON FUNCTION howdah.run_schedule FROM PUBLIC;
