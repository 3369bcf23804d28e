-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.key_of(p_key text, p_unique_key text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN coalesce(p_key, CASE WHEN p_unique_key LIKE 'key:%' THEN substr(p_unique_key, 5) END);
COMMENT ON FUNCTION howdah.key_of IS 'The key that the caller gave a job, whether it is unique by it as a key of live jobs or by a rule. Internal.';
REVOKE ALL ON FUNCTION howdah.key_of FROM PUBLIC;
