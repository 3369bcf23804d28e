-- least and greatest pass over a NULL, and take NaN for the greatest number of all.
CREATE OR REPLACE FUNCTION howdah.clamp(p_number float8, p_least float8, p_limit float8) RETURNS float8
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_number <> 'NaN' THEN least(greatest(p_number, p_least), p_limit) END;
COMMENT ON FUNCTION howdah.clamp IS 'The number, or the bound that it is beyond; NULL for what is no number. Internal.';
REVOKE ALL ON FUNCTION howdah.clamp FROM PUBLIC;
