CREATE OR REPLACE FUNCTION howdah.without_tokens(p_rate howdah.rate, p_full_at timestamptz, p_tokens float8) RETURNS timestamptz
LANGUAGE sql STABLE
RETURN howdah.clock()
    + make_interval(secs => (p_rate.burst - howdah.tokens(p_rate, p_full_at) + p_tokens) * p_rate.seconds / p_rate.jobs);
COMMENT ON FUNCTION howdah.without_tokens IS 'When a bucket is full again after so many tokens are taken; negative: given back. Internal.';
REVOKE ALL ON FUNCTION howdah.without_tokens FROM PUBLIC;
