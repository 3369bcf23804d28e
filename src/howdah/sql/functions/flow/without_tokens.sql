-- What there is to take was decided by the clock of the transaction, which may be old, and then shows too few tokens. But they are taken
-- now: otherwise those that have come since would be there a second time.
CREATE OR REPLACE FUNCTION howdah.without_tokens(p_rate howdah.rate, p_full_at timestamptz, p_tokens float8) RETURNS timestamptz
LANGUAGE sql VOLATILE
RETURN least(
    greatest(p_full_at, howdah.moving_clock()),
    -- See tokens.
    howdah.moving_clock() + make_interval(secs => p_rate.burst * p_rate.seconds / p_rate.jobs)
) + make_interval(secs => p_tokens * p_rate.seconds / p_rate.jobs);
COMMENT ON FUNCTION howdah.without_tokens IS 'When a bucket is full again after so many tokens are taken; negative: given back. Internal.';
REVOKE ALL ON FUNCTION howdah.without_tokens FROM PUBLIC;
