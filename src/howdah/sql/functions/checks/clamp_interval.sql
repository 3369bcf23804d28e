-- Whatever a row says, a moment less or plus this can be told. Infinite intervals, which PostgreSQL 17 has, are bounded as others are.
CREATE OR REPLACE FUNCTION howdah.clamp_interval(p_span interval) RETURNS interval
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN p_span IS NOT NULL THEN least(greatest(p_span, interval '0'), interval '36500 days') END;
COMMENT ON FUNCTION howdah.clamp_interval IS 'The span, but not below zero and not above a hundred years; NULL for NULL. Internal.';
REVOKE ALL ON FUNCTION howdah.clamp_interval FROM PUBLIC;
