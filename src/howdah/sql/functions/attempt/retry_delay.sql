CREATE OR REPLACE FUNCTION howdah.retry_delay(p_policy jsonb, p_attempts int) RETURNS interval
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_delay float8;
    v_max float8;
    v_jitter float8;
    v_seconds float8;
BEGIN
    IF NOT howdah.is_retry_policy(p_policy) THEN
        -- Not an error: a sweep ends many jobs at once, and one job with an invalid policy must not stop it. See check_options.
        RETURN NULL;
    END IF;
    v_delay := (p_policy ->> 'delay')::float8;
    v_max := coalesce((p_policy ->> 'max')::float8, 3600);
    v_jitter := coalesce((p_policy ->> 'jitter')::float8, 0);
    v_seconds := CASE p_policy ->> 'kind'
        WHEN 'none' THEN 0
        WHEN 'fixed' THEN v_delay
        WHEN 'linear' THEN v_delay * p_attempts
        -- The exponent is capped because 2^1024 is an error, not a long time.
        WHEN 'exponential' THEN v_delay * power(coalesce((p_policy ->> 'factor')::float8, 2), least(greatest(p_attempts - 1, 0), 60))
    END;
    v_seconds := least(v_seconds, v_max);
    RETURN make_interval(secs => least(v_seconds * (1 + v_jitter * (random() - 0.5) * 2), v_max));
END
$$;
COMMENT ON FUNCTION howdah.retry_delay IS 'The delay after the n-th failed attempt, by a retry policy. NULL if the policy is invalid.';
REVOKE ALL ON FUNCTION howdah.retry_delay FROM PUBLIC;
