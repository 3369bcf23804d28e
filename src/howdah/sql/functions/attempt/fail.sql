CREATE OR REPLACE FUNCTION howdah.fail(
    p_ids uuid[],
    p_tokens bigint[],
    p_errors text[],
    p_tracebacks text[] DEFAULT NULL,
    p_run_ats timestamptz[] DEFAULT NULL,
    p_give_ups boolean[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL,
    p_exceptions text[] DEFAULT NULL
) RETURNS TABLE (id uuid, status varchar, run_at timestamptz)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.id, s.status, s.run_at
    FROM howdah.end_attempt('failed', p_ids, p_tokens, p_errors, p_tracebacks, ARRAY(
        SELECT coalesce(w.run_at, howdah.clock() + w.delay)
        FROM unnest(p_ids, p_run_ats, p_delays) WITH ORDINALITY AS w (id, run_at, delay, place) ORDER BY w.place
    ), p_give_ups, p_exceptions) AS s
$$;
COMMENT ON FUNCTION howdah.fail IS
    'Ends the attempt of held jobs with an error. They are tried again by their retry policy, at p_run_ats or after p_delays, or fail'
    ' if no attempts are left or p_give_ups is set. p_exceptions are the paths of the exceptions'' classes. Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.fail FROM PUBLIC;
