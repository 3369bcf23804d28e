-- The search passes a level (priority) whose first job was never due: it holds no job of a lower priority up. On the level of the mark it begins
-- there, and looks at the few jobs that can have come before it since: those of transactions that the snapshot of the mark did not see. So it
-- is exact, without a look at the entries of all jobs that were ever in the order.
CREATE OR REPLACE FUNCTION howdah.flow_head(p_job_type varchar, p_flow_key text, p_mark howdah.flow_mark DEFAULT NULL)
RETURNS TABLE (id uuid, run_at timestamptz, priority int, first_due_at timestamptz)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE walk AS (
        SELECT 2147483648 AS priority, 'infinity'::timestamptz AS first_due_at, NULL::timestamptz AS run_at, NULL::uuid AS id
        UNION ALL
        SELECT step.priority, step.first_due_at, step.run_at, step.id
        FROM walk
        CROSS JOIN LATERAL (
            (
                SELECT j.priority::bigint AS priority, j.first_due_at, j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.flow_key IS NOT NULL AND j.job_type = p_job_type AND j.flow_key = p_flow_key
                    AND j.priority < walk.priority AND j.priority > coalesce(p_mark.priority, -2147483649)
                ORDER BY j.priority DESC, j.first_due_at, j.id
                LIMIT 1
            )
            UNION ALL
            (
                SELECT j.priority, j.first_due_at, j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.flow_key IS NOT NULL AND j.job_type = p_job_type AND j.flow_key = p_flow_key
                    AND j.priority = p_mark.priority AND p_mark.priority < walk.priority
                    AND (j.first_due_at, j.id) >= (p_mark.first_due_at, p_mark.id)
                ORDER BY j.first_due_at, j.id
                LIMIT 1
            )
            UNION ALL
            (
                SELECT j.priority, j.first_due_at, j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.flow_key IS NOT NULL AND j.job_type = p_job_type AND j.flow_key = p_flow_key
                    AND j.priority < walk.priority AND j.priority < p_mark.priority
                ORDER BY j.priority DESC, j.first_due_at, j.id
                LIMIT 1
            )
            LIMIT 1
        ) AS step
        WHERE walk.first_due_at > howdah.clock()
    )
    SELECT head.id, head.run_at, head.priority::int, head.first_due_at
    FROM (
        SELECT walk.id, walk.run_at, walk.priority, walk.first_due_at FROM walk
        UNION ALL
        SELECT late.id, late.run_at, late.priority, late.first_due_at
        FROM (
            SELECT j.id, j.run_at, j.priority, j.first_due_at FROM howdah.live AS j
            WHERE j.placed_by IS NOT NULL AND j.status = 'pending' AND j.job_type = p_job_type AND j.flow_key = p_flow_key
                AND j.placed_by >= p_mark.xmax AND j.first_due_at <= p_mark.first_due_at
            UNION ALL
            SELECT of_open.* FROM unnest(p_mark.open) AS o (xid)
            CROSS JOIN LATERAL (
                SELECT j.id, j.run_at, j.priority, j.first_due_at FROM howdah.live AS j
                WHERE j.placed_by IS NOT NULL AND j.status = 'pending' AND j.job_type = p_job_type AND j.flow_key = p_flow_key
                    AND j.placed_by = o.xid AND j.first_due_at <= p_mark.first_due_at
                OFFSET 0
            ) AS of_open
            -- The rest of the condition is apart: it would make the index of the order look cheaper.
            OFFSET 0
        ) AS late
        WHERE late.priority = p_mark.priority AND (late.first_due_at, late.id) < (p_mark.first_due_at, p_mark.id)
    ) AS head
    WHERE head.first_due_at <= howdah.clock()
    ORDER BY head.priority DESC, head.first_due_at, head.id
    LIMIT 1
$$;
COMMENT ON FUNCTION howdah.flow_head IS
    'The job that is next in the order of a key, whether it is due or waits for its retry. No row if none has fallen due yet. p_mark: where to'
    ' begin; the answer is the same without it. Part of claim.';
REVOKE ALL ON FUNCTION howdah.flow_head FROM PUBLIC;
