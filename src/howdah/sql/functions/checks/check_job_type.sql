CREATE OR REPLACE FUNCTION howdah.check_job_type(p_job_type text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_job_type IS NULL OR p_job_type = '' THEN
        RAISE EXCEPTION 'a job needs a job_type' USING ERRCODE = 'JQ002';
    ELSIF length(p_job_type) > 50 THEN
        RAISE EXCEPTION 'job_type has % characters; 50 are allowed', length(p_job_type) USING ERRCODE = 'JQ002';
    ELSIF p_job_type ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'job_type contains a control character' USING ERRCODE = 'JQ002';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_job_type IS 'Rejects a malformed job type with SQLSTATE JQ002.';
REVOKE ALL ON FUNCTION howdah.check_job_type FROM PUBLIC;
