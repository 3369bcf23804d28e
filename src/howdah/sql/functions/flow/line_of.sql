-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.line_of(p_flow_key text, p_run_at timestamptz) RETURNS varchar
LANGUAGE sql STABLE
RETURN CASE WHEN p_flow_key IS NULL THEN NULL WHEN p_run_at <= howdah.clock() THEN 'ready' ELSE 'later' END;
COMMENT ON FUNCTION howdah.line_of IS 'Where a pending job waits: see live.line. Internal.';
REVOKE ALL ON FUNCTION howdah.line_of FROM PUBLIC;
