CREATE OR REPLACE FUNCTION howdah.pause_schedule(p_name varchar) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.schedules AS s SET paused_at = howdah.clock() WHERE s.name = p_name AND s.paused_at IS NULL;
    IF FOUND THEN
        RETURN true;
    END IF;
    PERFORM FROM howdah.schedules AS s WHERE s.name = p_name;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no schedule %', p_name USING ERRCODE = 'JQ007';
    END IF;
    RETURN false;
END
$$;
COMMENT ON FUNCTION howdah.pause_schedule IS
    'From now on the schedule does not fire. False if it was paused already; SQLSTATE JQ007 if there is none of this name.';
REVOKE ALL ON FUNCTION howdah.pause_schedule FROM PUBLIC;
