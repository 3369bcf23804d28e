CREATE OR REPLACE FUNCTION howdah.snooze(
    p_ids uuid[],
    p_tokens bigint[],
    p_run_ats timestamptz[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL
) RETURNS TABLE (id uuid, status varchar, run_at timestamptz)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.id, s.status, s.run_at
    FROM howdah.end_attempt('snoozed', p_ids, p_tokens, NULL, NULL, ARRAY(
        SELECT coalesce(w.run_at, howdah.clock() + w.delay, howdah.clock())
        FROM unnest(p_ids, p_run_ats, p_delays) WITH ORDINALITY AS w (id, run_at, delay, place) ORDER BY w.place
    )) AS s
$$;
COMMENT ON FUNCTION howdah.snooze IS
    'Postpones running jobs until p_run_ats, or by p_delays, without spending an attempt. Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.snooze FROM PUBLIC;
