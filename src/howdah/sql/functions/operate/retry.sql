CREATE OR REPLACE FUNCTION howdah.retry(p_ids uuid[], p_fresh boolean DEFAULT false) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
BEGIN
    RETURN QUERY SELECT r.id FROM howdah.retry_ended(p_ids, p_fresh) AS r;
END
$$;
COMMENT ON FUNCTION howdah.retry IS
    'Makes ended jobs pending again under the same id, with no attempts spent and the old errors kept. Returns the jobs that it changed;'
    ' a job whose key, or unique key, a live job has taken is left as it is. It goes on after the steps that are done, and waits again for'
    ' signals that timed out; with p_fresh, it begins without its steps and its checkpoint.';
REVOKE ALL ON FUNCTION howdah.retry FROM PUBLIC;
