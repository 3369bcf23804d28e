CREATE OR REPLACE FUNCTION howdah.apply_rate(p_before howdah.types, p_job_type varchar, p_flow_key text DEFAULT NULL, p_former howdah.rate DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.flow_types AS b SET full_at = howdah.rescaled(howdah.rate_of_type(p_before), howdah.rate_of_type(t), b.full_at)
    FROM howdah.types AS t
    WHERE p_flow_key IS NULL AND t.job_type = p_job_type AND b.job_type = p_job_type AND howdah.rate_of_type(t) IS NOT NULL;
    UPDATE howdah.flow_keys AS k SET
        full_at = coalesce(howdah.rescaled(
            howdah.rate_of_keys(p_before, CASE WHEN p_flow_key IS NULL THEN k.rate ELSE p_former END), howdah.rate_of_keys(t, k.rate), k.full_at
        ), k.full_at),
        rests_until = CASE WHEN k.paused_at IS NULL THEN least(k.rests_until, howdah.clock()) ELSE k.rests_until END
    FROM howdah.types AS t
    WHERE t.job_type = p_job_type AND k.job_type = p_job_type AND (p_flow_key IS NULL OR k.flow_key = p_flow_key)
        AND k.full_at > howdah.clock();
END
$$;
COMMENT ON FUNCTION howdah.apply_rate IS
    'Makes a new rate apply to the buckets of a type and its keys, or of one key: they lack as many tokens as before, and no key rests any'
    ' longer because of the former rate. p_before: the type before the change. p_former: the former rate of its own of the key. Internal.';
REVOKE ALL ON FUNCTION howdah.apply_rate FROM PUBLIC;
