-- jsonb sorts null before strings before numbers before booleans: what lies between two numbers is one. A plain cast would raise, and
-- one value that a newer version wrote, or a hand, would stand in the way of all others. Without a search_path of its own, so that the
-- planner puts it in its place.
CREATE OR REPLACE FUNCTION howdah.number_in(p_value jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_value >= '-1000000000000000000' AND p_value <= '1000000000000000000' THEN p_value::numeric END;
COMMENT ON FUNCTION howdah.number_in IS 'The number that a JSON value is; NULL if it is none, or beyond all reason. Internal.';
REVOKE ALL ON FUNCTION howdah.number_in FROM PUBLIC;
