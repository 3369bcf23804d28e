CREATE OR REPLACE FUNCTION howdah.retry_delay(p_policy jsonb, p_attempts int) RETURNS interval
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_numbers boolean := NOT EXISTS (
        SELECT FROM unnest(ARRAY['delay', 'max', 'factor', 'jitter']) AS n (name)
        WHERE CASE jsonb_typeof(p_policy -> n.name)
            WHEN 'number' THEN (p_policy ->> n.name)::numeric NOT BETWEEN -1e9 AND 1e9
            ELSE p_policy -> n.name IS NOT NULL
        END
    );
    v_policy jsonb := CASE WHEN v_numbers THEN p_policy END;
    v_delay float8 := (v_policy ->> 'delay')::float8;
    v_longest float8 := coalesce((v_policy ->> 'max')::float8, 3600);
    v_factor float8 := coalesce((v_policy ->> 'factor')::float8, 2);
    v_jitter float8 := coalesce((v_policy ->> 'jitter')::float8, 0);
    v_seconds float8;
BEGIN
    v_seconds := CASE v_policy ->> 'kind'
        WHEN 'none' THEN 0
        WHEN 'fixed' THEN v_delay
        WHEN 'linear' THEN v_delay * p_attempts
        -- The exponent is capped because 2^1024 is an error, not a long time.
        WHEN 'exponential' THEN v_delay * power(v_factor, least(greatest(p_attempts - 1, 0), 60))
    END;
    IF v_seconds IS NULL OR v_delay < 0 OR v_longest < 0 OR v_longest > 1e9
        OR v_factor NOT BETWEEN 1 AND 1000 OR v_jitter NOT BETWEEN 0 AND 1
    THEN
        -- No error: a sweep ends many jobs at once, and one that was given such a policy must not stop it. See check_options.
        RETURN NULL;
    END IF;
    v_seconds := least(v_seconds, v_longest);
    RETURN make_interval(secs => least(v_seconds * (1 + v_jitter * (random() - 0.5) * 2), v_longest));
END
$$;
COMMENT ON FUNCTION howdah.retry_delay IS 'How long a job waits after its n-th failed attempt, by a retry policy. NULL for what is no policy.';
REVOKE ALL ON FUNCTION howdah.retry_delay FROM PUBLIC;
