-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.is_waiting(p_id uuid, p_token bigint) RETURNS boolean
LANGUAGE sql STABLE
RETURN EXISTS (SELECT FROM howdah.steps AS s WHERE s.job_id = p_id AND s.token = p_token AND s.state = 'waiting');
COMMENT ON FUNCTION howdah.is_waiting IS 'Whether a pending job with this token waits for a signal, or sleeps. Internal.';
REVOKE ALL ON FUNCTION howdah.is_waiting FROM PUBLIC;
