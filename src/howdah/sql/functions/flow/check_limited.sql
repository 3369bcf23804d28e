CREATE OR REPLACE FUNCTION howdah.check_limited(p_job_type varchar, p_flow_key text, p_group text, p_each_key boolean) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF (p_group IS NULL) = (p_job_type IS NULL) OR (p_group IS NOT NULL AND (p_flow_key IS NOT NULL OR p_each_key))
        OR (p_flow_key IS NOT NULL AND p_each_key)
    THEN
        RAISE EXCEPTION 'a limit is for a group, a type, one key of a type, or each key of a type' USING
            ERRCODE = 'JQ001', HINT = 'Give p_group alone, or p_job_type, with p_flow_key or p_each_key if you like.';
    ELSIF p_group = '' OR char_length(p_group) > 200 THEN
        RAISE EXCEPTION 'a name of a group has 1 to 200 characters' USING ERRCODE = 'JQ001';
    ELSIF p_job_type IS NOT NULL THEN
        PERFORM howdah.check_job_type(p_job_type);
    END IF;
    IF p_flow_key IS NOT NULL THEN
        PERFORM howdah.check_keys(ARRAY[p_flow_key], 'flow key');
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_limited IS 'Refuses a limit or a rate that is for nothing, or for two things. Internal.';
REVOKE ALL ON FUNCTION howdah.check_limited FROM PUBLIC;
