-- A sleeper is a session that holds a shared advisory lock for each bucket of types that it waits for. notify_workers looks for these
-- locks. A table of sleepers would bloat while an old transaction is open, and its rows would survive a killed session. Locks do
-- neither.
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
    'From now on this session gets a notification when jobs of these types may be due, on the channel on which it must already listen.'
    ' Returns the buckets that notifications will name; none if another session holds an exclusive lock on one: then poll, and call this'
    ' again later. Look for jobs once more after this call, and then wait. Needs a dedicated session, and lasts until remove_sleeper or'
    ' the end of the session.';
REVOKE ALL ON FUNCTION howdah.add_sleeper FROM PUBLIC;
