CREATE OR REPLACE FUNCTION howdah.due_schedules(p_limit int DEFAULT 100, p_leave_out varchar[] DEFAULT '{}')
RETURNS TABLE (
    name varchar, cron text, every interval, timezone text, missed text, next_run_at timestamptz, next_run_known boolean,
    now timestamptz
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.name, s.cron, s.every, s.timezone, s.missed, s.next_run_at, s.next_run_known, howdah.clock()
    FROM howdah.schedules AS s
    WHERE s.next_run_at <= howdah.clock() AND isfinite(s.next_run_at) AND s.paused_at IS NULL AND s.name <> ALL (p_leave_out)
    ORDER BY s.next_run_at, s.name
    LIMIT p_limit
$$;
COMMENT ON FUNCTION howdah.due_schedules IS
    'The schedules that are due now, those due longest first, without the names in p_leave_out. If next_run_known is false,'
    ' next_run_at is the time after which the first run is still to be computed.';
REVOKE ALL ON FUNCTION howdah.due_schedules FROM PUBLIC;
