CREATE OR REPLACE FUNCTION howdah.forget_held_from(p_job_type varchar, p_flow_key text DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.flow_types AS f SET held_from = NULL WHERE f.job_type IN (
        SELECT k.job_type FROM howdah.flow_types AS k WHERE k.job_type = p_job_type AND k.held_from IS NOT NULL FOR UPDATE SKIP LOCKED
    );
    UPDATE howdah.flow_keys AS f SET held_from = NULL WHERE f.job_type = p_job_type AND f.flow_key IN (
        SELECT k.flow_key FROM howdah.flow_keys AS k
        WHERE k.job_type = p_job_type AND (p_flow_key IS NULL OR k.flow_key = p_flow_key) AND k.held_from IS NOT NULL
        FOR UPDATE SKIP LOCKED
    );
    RETURN NOT EXISTS (SELECT FROM howdah.flow_types AS f WHERE f.job_type = p_job_type AND f.held_from IS NOT NULL)
        AND NOT EXISTS (
            SELECT FROM howdah.flow_keys AS k
            WHERE k.job_type = p_job_type AND (p_flow_key IS NULL OR k.flow_key = p_flow_key) AND k.held_from IS NOT NULL
        );
END
$$;
COMMENT ON FUNCTION howdah.forget_held_from IS
    'Jobs of the type, or of one of its keys, may be held by any token from now on, so that all of them are counted. False if a lock was in the'
    ' way. Internal.';
REVOKE ALL ON FUNCTION howdah.forget_held_from FROM PUBLIC;
