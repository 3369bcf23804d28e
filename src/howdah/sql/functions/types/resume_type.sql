CREATE OR REPLACE FUNCTION howdah.resume_type(p_job_type varchar) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    UPDATE howdah.types AS t SET paused_at = NULL, paused_because = NULL
    WHERE t.job_type = p_job_type AND t.paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM howdah.notify_workers(ARRAY[p_job_type]);
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.resume_type IS 'From now on jobs of this type are claimed again. False if it was not paused.';
REVOKE ALL ON FUNCTION howdah.resume_type FROM PUBLIC;
