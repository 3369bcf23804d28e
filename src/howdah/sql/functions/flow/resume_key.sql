CREATE OR REPLACE FUNCTION howdah.resume_key(p_job_type varchar, p_flow_key text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    UPDATE howdah.flow_keys AS k SET paused_at = NULL, paused_because = NULL, rests_until = howdah.clock()
    WHERE k.job_type = p_job_type AND k.flow_key = p_flow_key AND k.paused_at IS NOT NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM howdah.notify_workers(ARRAY[p_job_type]);
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.resume_key IS 'From now on jobs of this key of the type are claimed again. False if it was not paused.';
REVOKE ALL ON FUNCTION howdah.resume_key FROM PUBLIC;
