CREATE OR REPLACE FUNCTION howdah.set_max_pending(p_job_type varchar, p_max_pending int DEFAULT NULL, p_when_full text DEFAULT NULL)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_bound(p_max_pending, p_when_full);
    INSERT INTO howdah.types (job_type, max_pending, when_full) VALUES (p_job_type, p_max_pending, p_when_full)
    ON CONFLICT (job_type) DO UPDATE SET max_pending = excluded.max_pending, when_full = excluded.when_full;
END
$$;
COMMENT ON FUNCTION howdah.set_max_pending IS
    'Sets how many jobs of a type may wait, and what enqueueing does when so many wait (p_when_full: raise, wait or drop_oldest). Each applies'
    ' instead of what the handler declares; NULL resets it. Jobs that wait already stay.';
REVOKE ALL ON FUNCTION howdah.set_max_pending FROM PUBLIC;
