CREATE OR REPLACE FUNCTION howdah.rescaled(p_former howdah.rate, p_rate howdah.rate, p_full_at timestamptz) RETURNS timestamptz
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT howdah.without_tokens(p_rate, NULL, least(
        p_rate.burst,
        CASE WHEN p_former.burst IS NULL THEN p_rate.burst - howdah.tokens(p_rate, p_full_at)
        ELSE p_former.burst - howdah.tokens(p_former, p_full_at) END
    ))
$$;
COMMENT ON FUNCTION howdah.rescaled IS
    'When a bucket is full again whose rate has changed: it lacks as many tokens as before, but not more than it can hold. p_former NULL:'
    ' there was no rate. Internal.';
REVOKE ALL ON FUNCTION howdah.rescaled FROM PUBLIC;
