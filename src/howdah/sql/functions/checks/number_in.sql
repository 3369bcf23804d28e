-- jsonb sorts null before strings before numbers before booleans: a value between two numbers is a number. A plain cast would raise, and
-- one value from a newer version, or edited by hand, would block all others. It has no search_path of its own, so that the planner can
-- inline it.
CREATE OR REPLACE FUNCTION howdah.number_in(p_value jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_value >= '-1000000000000000000' AND p_value <= '1000000000000000000' THEN p_value::numeric END;
COMMENT ON FUNCTION howdah.number_in IS 'A JSON value as a number; NULL if it is none, or out of range. Internal.';
REVOKE ALL ON FUNCTION howdah.number_in FROM PUBLIC;
