CREATE OR REPLACE FUNCTION howdah.flow_head(p_job_type varchar, p_flow_key text) RETURNS TABLE (id uuid, run_at timestamptz)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE walk AS (
        (
            SELECT j.priority, j.first_due_at, j.run_at, j.id FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.flow_key IS NOT NULL AND j.job_type = p_job_type AND j.flow_key = p_flow_key
            ORDER BY j.priority DESC, j.first_due_at, j.id
            LIMIT 1
        )
        UNION ALL
        SELECT step.priority, step.first_due_at, step.run_at, step.id
        FROM walk
        CROSS JOIN LATERAL (
            SELECT j.priority, j.first_due_at, j.run_at, j.id FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.flow_key IS NOT NULL
                AND j.job_type = p_job_type AND j.flow_key = p_flow_key AND j.priority < walk.priority
            ORDER BY j.priority DESC, j.first_due_at, j.id
            LIMIT 1
        ) AS step
        -- A job that was never due holds no job of a lower priority up.
        WHERE walk.first_due_at > howdah.clock()
    )
    SELECT walk.id, walk.run_at FROM walk WHERE walk.first_due_at <= howdah.clock()
$$;
COMMENT ON FUNCTION howdah.flow_head IS
    'The job that is next in the order of a key, whether it is due or waits for its retry. No row if none has fallen due yet. Part of claim.';
REVOKE ALL ON FUNCTION howdah.flow_head FROM PUBLIC;
