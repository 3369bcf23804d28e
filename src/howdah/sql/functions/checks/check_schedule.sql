CREATE OR REPLACE FUNCTION howdah.check_schedule(
    p_name text, p_cron text, p_every interval, p_missed text, p_timezone text DEFAULT NULL, p_next_run_at timestamptz DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_name IS NULL OR p_name = '' OR length(p_name) > 100 OR p_name ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION 'the name of a schedule must have 1 to 100 characters, and no control characters' USING
            ERRCODE = 'JQ001';
    ELSIF (p_cron IS NULL) = (p_every IS NULL) THEN
        RAISE EXCEPTION 'a schedule needs either cron or every' USING ERRCODE = 'JQ001';
    ELSIF length(p_cron) > 1000 OR length(p_timezone) > 100 THEN
        RAISE EXCEPTION 'cron may have 1000 characters, and timezone 100' USING ERRCODE = 'JQ001';
    ELSIF isfinite(p_next_run_at) AND p_next_run_at NOT BETWEEN '0001-01-02 UTC' AND '9999-12-30 UTC' THEN
        -- Not every client supports other years, and one that does not would compute it again and again.
        RAISE EXCEPTION 'next_run_at is %, and must be in a year from 1 to 9999', p_next_run_at USING ERRCODE = 'JQ001';
    ELSIF p_every < '1 second' THEN
        RAISE EXCEPTION 'every is %, and must be at least a second', p_every USING ERRCODE = 'JQ001';
    ELSIF p_missed NOT IN ('none', 'last', 'all') THEN
        RAISE EXCEPTION 'missed is %, and must be none, last or all', p_missed USING ERRCODE = 'JQ001';
    END IF;
    IF p_every IS NOT NULL THEN
        PERFORM howdah.check_span(p_every, 'every');
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_schedule IS 'Rejects an invalid schedule with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_schedule FROM PUBLIC;
