CREATE OR REPLACE FUNCTION howdah.limit_of_keys(p_type howdah.types, p_own int DEFAULT NULL) RETURNS int
LANGUAGE sql IMMUTABLE
RETURN CASE
    WHEN p_type.ordered THEN least(coalesce(p_own, p_type.key_limit), 1)
    ELSE coalesce(p_own, p_type.key_limit, CASE WHEN p_type.per IS NOT NULL THEN p_type.declared_limit END)
END;
COMMENT ON FUNCTION howdah.limit_of_keys IS
    'How many jobs of a key of the type may run at once; NULL for no limit. p_own: the limit of this key, if it has one of its own. Internal.';
REVOKE ALL ON FUNCTION howdah.limit_of_keys FROM PUBLIC;
