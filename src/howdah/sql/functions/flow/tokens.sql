-- A bucket is one time: when it is full again. Until then it lacks what is added in the remaining time. A time that is too far ahead, because
-- the clock went back or the rate has changed, counts as an empty bucket.
CREATE OR REPLACE FUNCTION howdah.tokens(p_rate howdah.rate, p_full_at timestamptz) RETURNS float8
LANGUAGE sql STABLE
RETURN CASE WHEN p_rate.burst IS NOT NULL THEN least(greatest(
    p_rate.burst - coalesce(extract(epoch FROM p_full_at - howdah.clock())::float8, 0) * p_rate.jobs / p_rate.seconds, 0
), p_rate.burst) END;
COMMENT ON FUNCTION howdah.tokens IS 'How many tokens the bucket of a rate has now; NULL if there is no rate. Internal.';
REVOKE ALL ON FUNCTION howdah.tokens FROM PUBLIC;
