CREATE OR REPLACE FUNCTION howdah.resume_schedule(p_name varchar, p_next_run_at timestamptz DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF isfinite(p_next_run_at) AND p_next_run_at NOT BETWEEN '0001-01-02 UTC' AND '9999-12-30 UTC' THEN
        RAISE EXCEPTION 'next_run_at is %, and must be in a year from 1 to 9999', p_next_run_at USING ERRCODE = 'JQ001';
    END IF;
    UPDATE howdah.schedules AS s SET
        paused_at = NULL,
        -- An interval keeps its phase.
        next_run_at = coalesce(
            p_next_run_at,
            CASE WHEN isfinite(s.next_run_at) THEN date_bin(s.every, howdah.clock(), s.next_run_at) + s.every END,
            howdah.clock()
        ),
        next_run_known = p_next_run_at IS NOT NULL OR (s.every IS NOT NULL AND isfinite(s.next_run_at))
    WHERE s.name = p_name AND s.paused_at IS NOT NULL;
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
COMMENT ON FUNCTION howdah.resume_schedule IS
    'Lets a paused schedule fire again: first at p_next_run_at or, if that is not given, at its next regular time. Runs that were missed'
    ' meanwhile are not made up for. False if it was not paused; SQLSTATE JQ007 if there is none of this name.';
REVOKE ALL ON FUNCTION howdah.resume_schedule FROM PUBLIC;
