-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.is_selected(
    p_job_type varchar,
    p_status varchar,
    p_own_key text,
    p_own_flow_key text,
    p_last_error text,
    p_since timestamptz,
    p_job_types varchar[],
    p_statuses varchar[],
    p_key text,
    p_flow_key text,
    p_error text,
    p_before timestamptz
) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (p_job_types IS NULL OR p_job_type = ANY (p_job_types))
    AND (p_statuses IS NULL OR p_status = ANY (p_statuses))
    AND (p_key IS NULL OR p_own_key = p_key)
    AND (p_flow_key IS NULL OR p_own_flow_key = p_flow_key)
    AND (p_error IS NULL OR strpos(p_last_error, p_error) > 0)
    AND (p_before IS NULL OR p_since <= p_before);
COMMENT ON FUNCTION howdah.is_selected IS
    'Whether a job is in a selection: its own values come first, then the filters. A filter that is NULL selects all. p_since: when a live job'
    ' was created, or an ended one ended. Internal.';
REVOKE ALL ON FUNCTION howdah.is_selected FROM PUBLIC;
