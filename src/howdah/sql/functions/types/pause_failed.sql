-- The row of the type may be locked by an operator's open transaction. The end of a job does not wait for it without a bound; it is not recorded
-- without the pause, either, because then the next job would run.
CREATE OR REPLACE FUNCTION howdah.pause_failed(p_job_types varchar[], p_ids uuid[], p_statuses varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    UPDATE howdah.types AS t SET
        paused_at = howdah.clock(),
        paused_because = format('job %s of this ordered type ended as %s', failed.id, failed.status)
    FROM (
        SELECT DISTINCT ON (e.job_type) e.job_type, e.id, e.status FROM unnest(p_job_types, p_ids, p_statuses) AS e (job_type, id, status)
        WHERE e.status <> 'completed'
    ) AS failed
    WHERE t.job_type = failed.job_type AND t.pause_on_failure AND t.paused_at IS NULL;
END
$$;
COMMENT ON FUNCTION howdah.pause_failed IS 'Pauses the types of ordered jobs that have failed or were cancelled, where they have pause_on_failure. Internal.';
REVOKE ALL ON FUNCTION howdah.pause_failed FROM PUBLIC;
