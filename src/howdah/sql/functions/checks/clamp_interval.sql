-- Adding or subtracting the result cannot overflow, whatever a row contains. Infinite intervals (PostgreSQL 17) are limited likewise.
CREATE OR REPLACE FUNCTION howdah.clamp_interval(p_span interval) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_span IS NOT NULL THEN least(greatest(p_span, interval '0'), interval '36500 days') END;
COMMENT ON FUNCTION howdah.clamp_interval IS 'The interval, limited to zero and a hundred years; NULL for NULL. Internal.';
REVOKE ALL ON FUNCTION howdah.clamp_interval FROM PUBLIC;
