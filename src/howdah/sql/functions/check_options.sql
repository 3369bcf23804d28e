CREATE OR REPLACE FUNCTION howdah.check_options(
    p_max_attempts int, p_delay interval, p_timeout interval, p_retry_policy jsonb
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
BEGIN
    IF p_max_attempts < 1 THEN
        RAISE EXCEPTION 'max_attempts is %, and must be at least 1', p_max_attempts USING ERRCODE = 'JQ001';
    ELSIF p_delay < '0' THEN
        RAISE EXCEPTION 'delay is %, and must not be negative', p_delay USING ERRCODE = 'JQ001';
    ELSIF p_timeout <= '0' THEN
        RAISE EXCEPTION 'timeout is %, and must be positive', p_timeout USING ERRCODE = 'JQ001';
    ELSIF p_retry_policy IS NOT NULL THEN
        PERFORM howdah.retry_delay(p_retry_policy, 1);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_options IS 'Refuses options that no job can have with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_options FROM PUBLIC;
