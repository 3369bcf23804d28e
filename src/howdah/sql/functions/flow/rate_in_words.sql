CREATE OR REPLACE FUNCTION howdah.rate_in_words(p_of text, p_rate howdah.rate, p_full_at timestamptz, p_cost int) RETURNS text
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
RETURN format(
    '%s may start %s jobs in %s s, and this one in %s s', p_of, p_rate.jobs, p_rate.seconds::numeric,
    round(extract(epoch FROM howdah.has_tokens_at(p_rate, p_full_at, p_cost) - howdah.clock()), 1)
);
COMMENT ON FUNCTION howdah.rate_in_words IS 'That a rate is used up, and for how long. Internal.';
REVOKE ALL ON FUNCTION howdah.rate_in_words FROM PUBLIC;
