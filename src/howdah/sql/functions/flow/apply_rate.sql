CREATE OR REPLACE FUNCTION howdah.apply_rate(p_job_type varchar, p_flow_key text DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.flow_types AS b SET full_at = howdah.without_tokens(howdah.rate_of_type(t), b.full_at, 0)
    FROM howdah.types AS t
    WHERE p_flow_key IS NULL AND t.job_type = p_job_type AND b.job_type = p_job_type AND howdah.rate_of_type(t) IS NOT NULL;
    UPDATE howdah.flow_keys AS k SET
        full_at = coalesce(howdah.without_tokens(howdah.rate_of_keys(t, k.rate), k.full_at, 0), k.full_at),
        rests_until = CASE WHEN k.paused_at IS NULL THEN least(k.rests_until, howdah.clock()) ELSE k.rests_until END
    FROM howdah.types AS t
    WHERE t.job_type = p_job_type AND k.job_type = p_job_type AND (p_flow_key IS NULL OR k.flow_key = p_flow_key)
        AND k.full_at > howdah.clock();
END
$$;
COMMENT ON FUNCTION howdah.apply_rate IS
    'Makes a new rate apply to the buckets of a type and its keys, or of one key: none lacks more tokens than it can hold, and no key rests any'
    ' longer because of the former rate. Internal.';
REVOKE ALL ON FUNCTION howdah.apply_rate FROM PUBLIC;
