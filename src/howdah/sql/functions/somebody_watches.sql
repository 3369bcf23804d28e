-- As somebody_sleeps, beside whose buckets are those of the watchers.
CREATE OR REPLACE FUNCTION howdah.somebody_watches(p_job_type varchar) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN CASE
    WHEN pg_try_advisory_lock('howdah.live'::regclass::oid::int, 32 + abs(hashtext(p_job_type) % 32))
    THEN NOT pg_advisory_unlock('howdah.live'::regclass::oid::int, 32 + abs(hashtext(p_job_type) % 32))
    ELSE true
END;
COMMENT ON FUNCTION howdah.somebody_watches IS 'Whether any other session watches jobs of this type. Part of tell.';
REVOKE ALL ON FUNCTION howdah.somebody_watches FROM PUBLIC;
