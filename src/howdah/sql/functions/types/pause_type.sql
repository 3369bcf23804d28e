CREATE OR REPLACE FUNCTION howdah.pause_type(p_job_type varchar, p_because text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    INSERT INTO howdah.types AS t (job_type, paused_at, paused_because)
    VALUES (p_job_type, howdah.clock(), left(p_because, 10000))
    ON CONFLICT (job_type) DO UPDATE SET paused_at = excluded.paused_at, paused_because = excluded.paused_because
    WHERE t.paused_at IS NULL;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.pause_type IS 'From now on no job of this type is claimed; running jobs continue. False if it was paused already.';
REVOKE ALL ON FUNCTION howdah.pause_type FROM PUBLIC;
