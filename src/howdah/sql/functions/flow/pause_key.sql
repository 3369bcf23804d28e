CREATE OR REPLACE FUNCTION howdah.pause_key(p_job_type varchar, p_flow_key text, p_because text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_keys(ARRAY[p_flow_key], 'flow key');
    PERFORM howdah.use_keys(ARRAY[p_job_type]);
    INSERT INTO howdah.flow_keys AS k (job_type, flow_key, paused_at, paused_because, rests_until)
    VALUES (p_job_type, p_flow_key, howdah.clock(), left(p_because, 10000), 'infinity')
    ON CONFLICT (job_type, flow_key) DO UPDATE SET
        paused_at = excluded.paused_at, paused_because = excluded.paused_because, rests_until = excluded.rests_until
    WHERE k.paused_at IS NULL;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.pause_key IS
    'From now on no job of this key of the type is claimed; running jobs continue. False if it was paused already.';
REVOKE ALL ON FUNCTION howdah.pause_key FROM PUBLIC;
