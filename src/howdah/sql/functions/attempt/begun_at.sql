-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.begun_at(p_status varchar, p_started_at timestamptz, p_claimed_at timestamptz) RETURNS timestamptz
LANGUAGE sql IMMUTABLE
RETURN coalesce(p_started_at, CASE WHEN p_status = 'running' THEN p_claimed_at END);
COMMENT ON FUNCTION howdah.begun_at IS
    'When an attempt began. A job that its claim started ahead of a free slot, and that ended within milliseconds, has no started_at of its'
    ' own: it began with its claim. Internal.';
REVOKE ALL ON FUNCTION howdah.begun_at FROM PUBLIC;
