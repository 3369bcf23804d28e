-- A claim finds jobs with flow keys only if their type is known to have them. A producer may be in a long transaction, so it does not wait for
-- the row of the type: the sweep marks it otherwise.
CREATE OR REPLACE FUNCTION howdah.use_keys(p_job_types varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM unnest(p_job_types) AS named (job_type) LEFT JOIN howdah.types AS t ON t.job_type = named.job_type WHERE t.keyed IS NOT TRUE
    ) THEN
        RETURN;
    END IF;
    INSERT INTO howdah.types AS t (job_type, keyed, settling)
    SELECT named.job_type, true, '{}' FROM unnest(p_job_types) AS named (job_type) GROUP BY named.job_type ORDER BY named.job_type
    ON CONFLICT (job_type) DO UPDATE SET keyed = true, settling = '{}' WHERE NOT t.keyed;
EXCEPTION
    WHEN lock_not_available THEN
        NULL;
END
$$;
COMMENT ON FUNCTION howdah.use_keys IS 'Marks types as having jobs with flow keys. Internal.';
REVOKE ALL ON FUNCTION howdah.use_keys FROM PUBLIC;
