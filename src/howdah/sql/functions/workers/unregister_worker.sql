CREATE OR REPLACE FUNCTION howdah.unregister_worker(p_worker_id varchar, p_incarnation uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    DELETE FROM howdah.workers AS w WHERE w.worker_id = p_worker_id AND w.incarnation = p_incarnation;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM howdah.release_worker(p_worker_id);
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.unregister_worker IS 'Removes a worker that stops. Jobs that it still holds are released as those of a dead worker.';
REVOKE ALL ON FUNCTION howdah.unregister_worker FROM PUBLIC;
