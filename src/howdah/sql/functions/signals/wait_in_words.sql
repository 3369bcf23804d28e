CREATE OR REPLACE FUNCTION howdah.wait_in_words(p_id uuid, p_token bigint) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
    SELECT CASE s.kind
        WHEN 'sleep' THEN format('it sleeps until %s', to_char(s.until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS" UTC"'))
        ELSE format(
            'it waits for the signal %s%s since %s%s', s.signal,
            CASE WHEN s.key = '' THEN '' WHEN howdah.may_see_keys() THEN format(' (key %s)', s.key) ELSE ' (key [redacted])' END,
            to_char(s.begun_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS" UTC"'),
            ', until ' || to_char(s.until AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS" UTC"')
        )
    END
    FROM howdah.steps AS s
    WHERE s.job_id = p_id AND s.token = p_token AND s.state = 'waiting' AND (s.kind <> 'sleep' OR s.until > howdah.clock())
    LIMIT 1
$$;
COMMENT ON FUNCTION howdah.wait_in_words IS 'What a pending job with this token waits for, in words; NULL if it does not wait for a signal or a moment.';
REVOKE ALL ON FUNCTION howdah.wait_in_words FROM PUBLIC;
