CREATE OR REPLACE FUNCTION howdah.remove_sleeper(p_job_types varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- Who was not asleep (its session was lost, perhaps) is not warned.
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
COMMENT ON FUNCTION howdah.remove_sleeper IS 'Ends what one call of add_sleeper with the same types began, in the same session.';
REVOKE ALL ON FUNCTION howdah.remove_sleeper FROM PUBLIC;
