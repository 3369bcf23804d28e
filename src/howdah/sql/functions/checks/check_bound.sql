CREATE OR REPLACE FUNCTION howdah.check_bound(p_max_pending int, p_when_full text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_max_pending < 1 THEN
        RAISE EXCEPTION 'max_pending is %, and must be at least 1', p_max_pending USING
            ERRCODE = 'JQ001', HINT = 'NULL resets it.';
    ELSIF p_when_full NOT IN ('raise', 'wait', 'drop_oldest') THEN
        RAISE EXCEPTION 'when_full is %, and must be raise, wait or drop_oldest', p_when_full USING ERRCODE = 'JQ001';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_bound IS 'Raises SQLSTATE JQ001 where a bound on the jobs that wait is not valid. Internal.';
REVOKE ALL ON FUNCTION howdah.check_bound FROM PUBLIC;
