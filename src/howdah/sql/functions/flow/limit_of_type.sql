CREATE OR REPLACE FUNCTION howdah.limit_of_type(p_type howdah.types) RETURNS int
LANGUAGE sql IMMUTABLE
RETURN coalesce(p_type.type_limit, CASE WHEN p_type.per IS NULL THEN p_type.declared_limit END);
COMMENT ON FUNCTION howdah.limit_of_type IS 'How many jobs of a type may run at once over all workers; NULL for no limit. Internal.';
REVOKE ALL ON FUNCTION howdah.limit_of_type FROM PUBLIC;
