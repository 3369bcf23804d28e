-- The start of each lane: for each type, its first due job below a priority (NULL: of any priority).
--
-- Inside one type and priority the due jobs come first in the index, so its first entry shows whether there is a due job. For most
-- types the very first entry is due, and the search ends there. The others are walked downwards, priority by priority. So are types
-- with a cursor, which marks what the caller has seen already: without it, each lookup would pass the dead entries of all jobs
-- claimed before, as long as an old transaction keeps them from being vacuumed. Such types are walked as the gaps between cursors
-- (claims leave no dead entries there) and as the range behind each cursor. After many steps without success, far_head continues.
CREATE OR REPLACE FUNCTION howdah.lane_heads(
    p_job_types varchar[],
    p_below bigint[],
    p_cursor_types varchar[],
    p_cursor_priorities int[],
    p_cursor_run_ats timestamptz[],
    p_cursor_ids uuid[]
) RETURNS TABLE (job_type varchar, priority int, run_at timestamptz, id uuid)
LANGUAGE sql STABLE
AS $$
    WITH RECURSIVE first_entry AS MATERIALIZED (
        SELECT lane.job_type, j.priority::bigint AS priority, j.run_at, j.id
        FROM unnest(p_job_types, p_below) AS lane (job_type, below)
        CROSS JOIN LATERAL (
            SELECT j.priority, j.run_at, j.id FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = lane.job_type
                AND j.priority < coalesce(lane.below, 2147483648)
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT 1
        ) AS j
        WHERE lane.job_type = ANY (p_cursor_types) IS NOT TRUE
    ), walk AS (
        (
            SELECT lane.job_type, coalesce(lane.below, 2147483648) AS priority, NULL::timestamptz AS run_at, NULL::uuid AS id, 0 AS steps
            FROM unnest(p_job_types, p_below) AS lane (job_type, below)
            WHERE lane.job_type = ANY (p_cursor_types)
            UNION ALL
            SELECT first_entry.job_type, first_entry.priority, first_entry.run_at, first_entry.id, 0
            FROM first_entry WHERE first_entry.run_at > howdah.clock()
        )
        UNION ALL
        SELECT walk.job_type, step.priority, step.run_at, step.id, walk.steps + 1
        FROM walk
        LEFT JOIN LATERAL (
            SELECT p_cursor_priorities[c.n]::bigint AS priority, p_cursor_run_ats[c.n] AS run_at, p_cursor_ids[c.n] AS id
            FROM unnest(array_positions(p_cursor_types, walk.job_type)) AS c (n)
            WHERE p_cursor_priorities[c.n] < walk.priority
            ORDER BY p_cursor_priorities[c.n] DESC
            LIMIT 1
        ) AS next_cursor ON true
        CROSS JOIN LATERAL (
            (
                SELECT j.priority::bigint AS priority, j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = walk.job_type
                    AND j.priority < walk.priority AND j.priority > coalesce(next_cursor.priority, -2147483649)
                ORDER BY j.priority DESC, j.run_at, j.id
                LIMIT 1
            )
            UNION ALL
            SELECT next_cursor.priority, behind.run_at, behind.id
            FROM (SELECT) AS it
            LEFT JOIN LATERAL (
                SELECT j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = walk.job_type AND j.priority = next_cursor.priority
                    AND (j.run_at, j.id) > (next_cursor.run_at, next_cursor.id)
                ORDER BY j.run_at, j.id
                LIMIT 1
            ) AS behind ON true
            WHERE next_cursor.priority IS NOT NULL
            LIMIT 1
        ) AS step
        WHERE (walk.run_at IS NULL OR walk.run_at > howdah.clock()) AND walk.steps < 64
    )
    SELECT head.job_type, head.priority::int, head.run_at, head.id
    FROM (TABLE first_entry UNION ALL SELECT walk.job_type, walk.priority, walk.run_at, walk.id FROM walk) AS head
    WHERE head.run_at <= howdah.clock()
    UNION ALL
    SELECT walk.job_type, far.priority, far.run_at, far.id
    FROM walk
    CROSS JOIN LATERAL howdah.far_head(
        walk.job_type, walk.priority, p_cursor_types, p_cursor_priorities, p_cursor_run_ats, p_cursor_ids
    ) AS far
    WHERE walk.steps = 64 AND (walk.run_at IS NULL OR walk.run_at > howdah.clock())
$$;
COMMENT ON FUNCTION howdah.lane_heads IS 'The first due job of each given type below a given priority. Part of claim.';
REVOKE ALL ON FUNCTION howdah.lane_heads FROM PUBLIC;
