-- As has_sleeper. The buckets of watchers follow those of sleepers.
CREATE OR REPLACE FUNCTION howdah.has_watcher(p_job_type varchar) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN pg_try_advisory_lock('howdah.live'::regclass::oid::int, 32 + abs(hashtext(p_job_type) % 32))
    THEN NOT pg_advisory_unlock('howdah.live'::regclass::oid::int, 32 + abs(hashtext(p_job_type) % 32))
    ELSE true
END;
COMMENT ON FUNCTION howdah.has_watcher IS 'Whether any other session watches jobs of this type. Part of notify_watchers.';
REVOKE ALL ON FUNCTION howdah.has_watcher FROM PUBLIC;
