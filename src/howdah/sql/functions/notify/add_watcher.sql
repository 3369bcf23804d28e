CREATE OR REPLACE FUNCTION howdah.add_watcher(p_job_types varchar[] DEFAULT NULL) RETURNS int[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_buckets int[] := CASE
        WHEN p_job_types IS NULL THEN ARRAY(SELECT generate_series(0, 31))
        ELSE ARRAY(
            SELECT DISTINCT abs(hashtext(t.job_type) % 32) AS bucket
            FROM unnest(p_job_types) AS t (job_type) WHERE t.job_type IS NOT NULL ORDER BY bucket
        )
    END;
BEGIN
    RETURN CASE
        WHEN howdah.share_locks(ARRAY(SELECT 32 + w.bucket FROM unnest(v_buckets) AS w (bucket))) THEN v_buckets
        ELSE '{}'
    END;
END
$$;
COMMENT ON FUNCTION howdah.add_watcher IS
    'From now on this session gets a notification when jobs of these types (all if not given) change: progress, events, ends. It must'
    ' already listen on the channel. Returns the buckets that notifications will name; none if another session holds an exclusive lock on'
    ' one: then poll, and call this again later. Read once more after this call, and then wait. Needs a dedicated session, and lasts until'
    ' remove_watcher or the end of the session.';
REVOKE ALL ON FUNCTION howdah.add_watcher FROM PUBLIC;
