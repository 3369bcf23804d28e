-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.has_tokens_at(p_rate howdah.rate, p_full_at timestamptz, p_tokens float8) RETURNS timestamptz
LANGUAGE sql VOLATILE
AS $$
    SELECT howdah.without_tokens(p_rate, p_full_at, least(p_tokens, p_rate.burst) - p_rate.burst)
$$;
COMMENT ON FUNCTION howdah.has_tokens_at IS 'When a bucket has so many tokens, or as many as it can hold. Internal.';
REVOKE ALL ON FUNCTION howdah.has_tokens_at FROM PUBLIC;
