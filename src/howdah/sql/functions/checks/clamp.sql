-- least and greatest ignore NULL, and treat NaN as the greatest number.
CREATE OR REPLACE FUNCTION howdah.clamp(p_number float8, p_least float8, p_limit float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_number <> 'NaN' THEN least(greatest(p_number, p_least), p_limit) END;
COMMENT ON FUNCTION howdah.clamp IS 'The number, limited to a range; NULL for NULL and NaN. Internal.';
REVOKE ALL ON FUNCTION howdah.clamp FROM PUBLIC;
