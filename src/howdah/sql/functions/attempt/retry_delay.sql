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
    -- Rounded to a millionth: a smaller number may be one that no float8 can hold, or whose product with another one is.
    -- Of a list, the delay after this attempt; after more attempts than it has delays, the last one.
    v_delay := round(CASE p_policy ->> 'kind'
        WHEN 'delays' THEN p_policy -> 'delays' ->> least(greatest(p_attempts, 1), jsonb_array_length(p_policy -> 'delays')) - 1
        ELSE p_policy ->> 'delay'
    END::numeric, 6);
    v_max := coalesce(round((p_policy ->> 'max')::numeric, 6), CASE p_policy ->> 'kind' WHEN 'delays' THEN 1000000000 ELSE 3600 END);
    v_jitter := coalesce(round((p_policy ->> 'jitter')::numeric, 6), 0);
    v_seconds := CASE p_policy ->> 'kind'
        WHEN 'none' THEN 0
        WHEN 'fixed' THEN v_delay
        WHEN 'delays' THEN v_delay
        WHEN 'linear' THEN v_delay * p_attempts
        -- The exponent is capped because 2^1024 is an error, not a long time.
        WHEN 'exponential' THEN
            v_delay * power(coalesce(round((p_policy ->> 'factor')::numeric, 6), 2)::float8, least(greatest(p_attempts, 1) - 1, 60))
    END;
    v_seconds := least(greatest(v_seconds, 0), v_max);
    RETURN make_interval(secs => least(v_seconds * (1 + v_jitter * (random() - 0.5) * 2), v_max));
END
$$;
COMMENT ON FUNCTION howdah.retry_delay IS 'The delay after the n-th failed attempt, by a retry policy. NULL if the policy is invalid.';
REVOKE ALL ON FUNCTION howdah.retry_delay FROM PUBLIC;
