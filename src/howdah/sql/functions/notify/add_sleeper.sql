-- A sleeper is a shared advisory lock of its session, for each bucket of types that it sleeps on. A table of
-- sleepers would bloat while an old transaction is open, and its rows would outlive a killed session; locks
-- do neither. notify_workers looks for them.
CREATE OR REPLACE FUNCTION howdah.add_sleeper(p_job_types varchar[]) RETURNS int[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_buckets int[] := ARRAY(
        SELECT DISTINCT abs(hashtext(t.job_type) % 32) AS bucket
        FROM unnest(p_job_types) AS t (job_type) WHERE t.job_type IS NOT NULL ORDER BY bucket
    );
BEGIN
    RETURN CASE WHEN howdah.share_locks(v_buckets) THEN v_buckets ELSE '{}' END;
END
$$;
COMMENT ON FUNCTION howdah.add_sleeper IS
    'From now on this session gets a notification, on the channel that it must have begun to listen on before, when jobs of'
    ' these types may be due. Returns the buckets that it will name; none if another session keeps a lock that sleepers share: then poll, and'
    ' call this again later. Look for jobs once more after this call, and then wait. Needs a session of one''s own, and ends with it or with remove_sleeper.';
REVOKE ALL ON FUNCTION howdah.add_sleeper FROM PUBLIC;
