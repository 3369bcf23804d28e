CREATE OR REPLACE FUNCTION howdah.remove_watcher(p_job_types varchar[] DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- No warning if the session holds no such lock, for example because it was replaced.
SET client_min_messages = error
AS $$
BEGIN
    PERFORM pg_advisory_unlock_shared('howdah.live'::regclass::oid::int, 32 + w.bucket)
    FROM (
        SELECT generate_series(0, 31) AS bucket WHERE p_job_types IS NULL
        UNION
        SELECT abs(hashtext(t.job_type) % 32) FROM unnest(p_job_types) AS t (job_type) WHERE t.job_type IS NOT NULL
    ) AS w;
END
$$;
COMMENT ON FUNCTION howdah.remove_watcher IS 'Reverts one call of add_watcher with the same types, in the same session.';
REVOKE ALL ON FUNCTION howdah.remove_watcher FROM PUBLIC;
