CREATE OR REPLACE FUNCTION howdah.rate_of_type(p_type howdah.types) RETURNS howdah.rate
LANGUAGE sql IMMUTABLE
RETURN coalesce(p_type.type_rate, CASE WHEN p_type.per IS NULL THEN p_type.declared_rate END);
COMMENT ON FUNCTION howdah.rate_of_type IS 'How often jobs of a type may start over all workers; NULL for no limit. Internal.';
REVOKE ALL ON FUNCTION howdah.rate_of_type FROM PUBLIC;
