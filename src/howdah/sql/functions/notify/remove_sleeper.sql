CREATE OR REPLACE FUNCTION howdah.remove_sleeper(p_job_types varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- No warning if the session holds no such lock, for example because it was replaced.
SET client_min_messages = error
AS $$
BEGIN
    PERFORM pg_advisory_unlock_shared('howdah.live'::regclass::oid::int, s.bucket)
    FROM (
        SELECT DISTINCT abs(hashtext(t.job_type) % 32) AS bucket
        FROM unnest(p_job_types) AS t (job_type) WHERE t.job_type IS NOT NULL
    ) AS s;
END
$$;
COMMENT ON FUNCTION howdah.remove_sleeper IS 'Reverts one call of add_sleeper with the same types, in the same session.';
REVOKE ALL ON FUNCTION howdah.remove_sleeper FROM PUBLIC;
