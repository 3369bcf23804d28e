CREATE OR REPLACE FUNCTION howdah.check_options(
    p_max_attempts int, p_delay interval, p_timeout interval, p_retry_policy jsonb, p_expires_in interval DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_max_attempts < 1 THEN
        RAISE EXCEPTION 'max_attempts is %, and must be at least 1', p_max_attempts USING ERRCODE = 'JQ001';
    ELSIF p_delay < '0' THEN
        RAISE EXCEPTION 'delay is %, and must not be negative', p_delay USING ERRCODE = 'JQ001';
    END IF;
    IF p_delay IS NOT NULL THEN
        -- Zero is allowed, and so is what only adds up to it if its parts are small.
        PERFORM howdah.check_span(CASE WHEN p_delay = '0' THEN p_delay + interval '1 microsecond' ELSE p_delay END, 'delay');
    END IF;
    IF p_timeout IS NOT NULL THEN
        PERFORM howdah.check_span(p_timeout, 'timeout');
    END IF;
    IF p_expires_in IS NOT NULL THEN
        PERFORM howdah.check_span(p_expires_in, 'expires_in');
    END IF;
    IF pg_column_size(p_retry_policy) > 8192 THEN
        RAISE EXCEPTION 'a retry policy has % bytes; 8192 are allowed', pg_column_size(p_retry_policy) USING ERRCODE = 'JQ003';
    ELSIF p_retry_policy IS NOT NULL AND howdah.retry_delay(p_retry_policy, 1) IS NULL THEN
        RAISE EXCEPTION 'not a retry policy: %', p_retry_policy USING
            ERRCODE = 'JQ001',
            HINT = 'For example {"kind": "exponential", "delay": 2, "factor": 2, "max": 3600, "jitter": 0.2};'
                ' the other kinds are "fixed" and "linear" (with a delay), "delays" (with a list of delays) and "none". Delays are seconds.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_options IS 'Rejects invalid options of a job with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_options FROM PUBLIC;
