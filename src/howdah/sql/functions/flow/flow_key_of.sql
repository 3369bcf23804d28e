-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.flow_key_of(p_keyed boolean, p_per text, p_data jsonb, p_flow_key text) RETURNS text
LANGUAGE sql IMMUTABLE
RETURN CASE WHEN p_keyed THEN coalesce(p_flow_key, left(p_data ->> p_per, 200), '') ELSE nullif(p_flow_key, '') END;
COMMENT ON FUNCTION howdah.flow_key_of IS 'The flow key of a job: the one that it was given, or that of its type''s argument (per). Empty if it has none, and its type'
    ' has keys. Internal.';
REVOKE ALL ON FUNCTION howdah.flow_key_of FROM PUBLIC;
