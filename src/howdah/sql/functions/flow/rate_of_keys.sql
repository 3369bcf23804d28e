CREATE OR REPLACE FUNCTION howdah.rate_of_keys(p_type howdah.types, p_own howdah.rate DEFAULT NULL) RETURNS howdah.rate
LANGUAGE sql IMMUTABLE
RETURN coalesce(p_own, p_type.key_rate, CASE WHEN p_type.per IS NOT NULL THEN p_type.declared_rate END);
COMMENT ON FUNCTION howdah.rate_of_keys IS
    'How often jobs of a key of the type may start; NULL for no limit. p_own: the rate of this key, if it has one of its own. Internal.';
REVOKE ALL ON FUNCTION howdah.rate_of_keys FROM PUBLIC;
