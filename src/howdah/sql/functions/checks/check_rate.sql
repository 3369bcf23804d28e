CREATE OR REPLACE FUNCTION howdah.check_rate(p_jobs int, p_seconds float8, p_burst int) RETURNS howdah.rate
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_jobs IS NULL THEN
        RETURN NULL;
    ELSIF p_jobs NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'the rate is % jobs, and must be from 1 to 1000000', p_jobs USING
            ERRCODE = 'JQ001', HINT = 'To start no jobs, pause the type or the key, or set a limit of 0.';
    ELSIF (p_seconds BETWEEN 0.001 AND 31622400) IS NOT TRUE THEN
        RAISE EXCEPTION 'the rate is for % seconds, and must be for 0.001 to 31622400', p_seconds USING ERRCODE = 'JQ001';
    ELSIF p_burst NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'burst is %, and must be from 1 to 1000000', p_burst USING ERRCODE = 'JQ001';
    END IF;
    RETURN ROW(p_jobs, p_seconds, coalesce(p_burst, p_jobs))::howdah.rate;
END
$$;
COMMENT ON FUNCTION howdah.check_rate IS 'A rate of so many jobs in so many seconds; NULL if p_jobs is. Refuses what cannot be one. Internal.';
REVOKE ALL ON FUNCTION howdah.check_rate FROM PUBLIC;
