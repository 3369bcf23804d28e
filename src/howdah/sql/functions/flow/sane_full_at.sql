-- More than a second: a sum of float8 may be a little more than the whole.
CREATE OR REPLACE FUNCTION howdah.sane_full_at(p_rate howdah.rate, p_full_at timestamptz) RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN p_full_at > howdah.without_tokens(p_rate, p_full_at, 0) + interval '1 second' THEN howdah.without_tokens(p_rate, p_full_at, 0)
        ELSE p_full_at
    END
$$;
COMMENT ON FUNCTION howdah.sane_full_at IS
    'When a bucket is full again. A time that is too far ahead, because the clock was ahead for a moment, becomes that of an empty bucket. Internal.';
REVOKE ALL ON FUNCTION howdah.sane_full_at FROM PUBLIC;
