CREATE OR REPLACE FUNCTION howdah.check_selection(p_key text, p_flow_key text, p_error text, p_limit int, p_is_limited boolean)
RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_is_limited IS NOT TRUE THEN
        RAISE EXCEPTION 'the selection has no filter, and would change every job' USING
            ERRCODE = 'JQ001',
            HINT = 'Give a filter (p_job_types, p_statuses, p_key, p_flow_key, p_error, p_before), or p_everything => true if you mean that.';
    ELSIF p_limit NOT BETWEEN 1 AND 10000 THEN
        RAISE EXCEPTION 'p_limit is %, and must be between 1 and 10000', p_limit USING ERRCODE = 'JQ001';
    ELSIF num_nonnulls(p_key, p_flow_key, p_error) > 0 AND NOT howdah.may_see_keys() THEN
        -- By trying one text after the other, it could find out what the views redact.
        RAISE EXCEPTION 'this login may not see keys and errors, and cannot select by them' USING
            ERRCODE = '42501',
            HINT = 'That needs SELECT on the table live.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_selection IS
    'Rejects a selection without a filter, an invalid limit, and filters by contents that the login may not see. Internal.';
REVOKE ALL ON FUNCTION howdah.check_selection FROM PUBLIC;
