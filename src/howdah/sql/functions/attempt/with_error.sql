CREATE OR REPLACE FUNCTION howdah.with_error(p_errors jsonb, p_entry jsonb) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN p_entry IS NULL THEN p_errors
    WHEN p_errors IS NULL OR jsonb_typeof(p_errors) <> 'array' THEN jsonb_build_array(p_entry)
    -- A job that may fail for ever must not grow for ever.
    WHEN jsonb_array_length(p_errors) >= 100 THEN (p_errors - 1) || p_entry
    ELSE p_errors || p_entry
END;
COMMENT ON FUNCTION howdah.with_error IS 'The error list of a job with one more entry; the first and the last 99 are kept.';
REVOKE ALL ON FUNCTION howdah.with_error FROM PUBLIC;
