CREATE OR REPLACE FUNCTION howdah.heartbeat(p_worker_id varchar, p_boot uuid, p_running int DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.workers AS w SET heartbeat_at = howdah.lease_clock(), running = coalesce(p_running, w.running)
    WHERE w.worker_id = p_worker_id AND w.boot = p_boot;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.heartbeat IS
    'A worker''s sign of life. False if it was given up for dead, or its name was taken over: what it holds is no longer its own.';
REVOKE ALL ON FUNCTION howdah.heartbeat FROM PUBLIC;
