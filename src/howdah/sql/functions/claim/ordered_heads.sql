CREATE OR REPLACE FUNCTION howdah.ordered_heads(p_job_types varchar[])
RETURNS TABLE (job_type varchar, priority int, run_at timestamptz, id uuid)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE walk AS (
        SELECT
            lane.job_type, 2147483648::bigint AS priority, NULL::timestamptz AS first_due_at,
            NULL::timestamptz AS run_at, NULL::uuid AS id, NULL::varchar AS status, true AS has_attempts
        FROM unnest(p_job_types) AS lane (job_type)
        WHERE NOT EXISTS (
            SELECT FROM howdah.live AS j
            -- Of any order_key: a job may have been held since before its type became ordered.
            WHERE j.job_type = lane.job_type AND j.status IN ('claimed', 'running')
        )
        UNION ALL
        SELECT
            walk.job_type, step.priority, step.first_due_at, step.run_at, step.id, step.status, step.has_attempts
        FROM walk
        CROSS JOIN LATERAL (
            SELECT
                j.priority::bigint AS priority, j.first_due_at, j.run_at, j.id, j.status,
                j.attempts < j.max_attempts AS has_attempts
            FROM howdah.live AS j
            WHERE j.job_type = walk.job_type AND j.order_key = '' AND j.priority < walk.priority
            ORDER BY j.priority DESC, j.first_due_at, j.id
            LIMIT 1
        ) AS step
        WHERE walk.first_due_at IS NULL OR walk.first_due_at > howdah.clock()
    )
    -- A head that backs off (due before, but not now) blocks its lane: it is the last of the walk, and is not returned.
    SELECT walk.job_type, walk.priority::int, walk.run_at, walk.id
    FROM walk
    WHERE walk.first_due_at <= howdah.clock() AND walk.run_at <= howdah.clock()
        AND walk.status = 'pending' AND walk.has_attempts
$$;
COMMENT ON FUNCTION howdah.ordered_heads IS
    'The job that may run next of each given ordered type, if there is one. Part of claim.';
REVOKE ALL ON FUNCTION howdah.ordered_heads FROM PUBLIC;
