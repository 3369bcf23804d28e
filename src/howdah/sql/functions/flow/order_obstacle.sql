CREATE OR REPLACE FUNCTION howdah.order_obstacle(p_job howdah.live) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT format('job %s of %s ', first.id, howdah.key_in_words(p_job)) || CASE
        WHEN first.is_held THEN 'is running'
        WHEN first.run_at > howdah.clock() THEN 'comes first, and waits for its retry'
        ELSE 'comes first'
    END
    FROM (
        SELECT j.id, j.run_at, true AS is_held FROM howdah.live AS j
        WHERE j.job_type = p_job.job_type AND j.flow_key = p_job.flow_key AND j.status IN ('claimed', 'running')
        UNION ALL
        SELECT head.id, head.run_at, false FROM howdah.flow_head(p_job.job_type, p_job.flow_key) AS head
        WHERE head.id <> p_job.id AND NOT EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = p_job.job_type AND t.order_skips)
    ) AS first
    ORDER BY first.is_held DESC
    LIMIT 1
$$;
COMMENT ON FUNCTION howdah.order_obstacle IS
    'Which job of its key keeps a pending job of an ordered type from running; NULL if it is the next one. Internal.';
REVOKE ALL ON FUNCTION howdah.order_obstacle FROM PUBLIC;
