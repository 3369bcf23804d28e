CREATE OR REPLACE FUNCTION howdah.next_fire(p_leave_out varchar[] DEFAULT '{}') RETURNS interval
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT min(s.next_run_at) - howdah.clock()
    FROM howdah.schedules AS s
    WHERE isfinite(s.next_run_at) AND s.paused_at IS NULL AND s.name <> ALL (p_leave_out)
$$;
COMMENT ON FUNCTION howdah.next_fire IS
    'The time until the next schedule is due, without the names in p_leave_out. Negative if one is due already; NULL if'
    ' none will be.';
REVOKE ALL ON FUNCTION howdah.next_fire FROM PUBLIC;
