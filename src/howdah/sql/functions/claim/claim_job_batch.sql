CREATE OR REPLACE FUNCTION howdah.claim_job_batch(
    p_worker_id varchar(100),
    p_job_types varchar(50)[],
    p_batch_size int DEFAULT 10
) RETURNS SETOF howdah.jobs
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT
        id, job_type, priority, status, data, progress, current_stage, events_count, worker_id, claimed_at,
        created_at, started_at, NULL::timestamptz, attempts, max_attempts, last_error
    FROM howdah.claim(p_worker_id, p_job_types, p_batch_size)
$$;
COMMENT ON FUNCTION howdah.claim_job_batch IS
    'Claims up to p_batch_size due jobs of the named types, best first, and returns them as rows of jobs.';
REVOKE ALL ON FUNCTION howdah.claim_job_batch FROM PUBLIC;
