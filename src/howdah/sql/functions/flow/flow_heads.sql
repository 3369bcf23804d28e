CREATE OR REPLACE FUNCTION howdah.flow_heads(
    p_job_types varchar[], p_below bigint[], p_lowest boolean DEFAULT false, p_priorities int[] DEFAULT NULL, p_due_froms timestamptz[] DEFAULT NULL
)
RETURNS TABLE (job_type varchar, priority int)
LANGUAGE sql STABLE
AS $$
    SELECT lane.job_type, level.priority
    FROM unnest(p_job_types, p_below, p_priorities, p_due_froms) AS lane (job_type, below, priority, due_from)
    CROSS JOIN LATERAL (
        SELECT CASE
            WHEN p_lowest THEN min(head.priority)
            WHEN lane.due_from IS NULL OR max(head.priority) >= lane.priority THEN max(head.priority)
            -- Before it goes to a lower level it looks for jobs that were due earlier, too: one of them may have come late.
            ELSE greatest(max(head.priority), (
                SELECT j.priority FROM howdah.live AS j
                WHERE j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority < coalesce(lane.below, 2147483648)
                ORDER BY j.priority DESC
                LIMIT 1
            ))
        END AS priority
        FROM (
            (
                SELECT j.priority FROM howdah.live AS j
                WHERE NOT p_lowest AND lane.due_from IS NULL AND j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority < coalesce(lane.below, 2147483648)
                ORDER BY j.priority DESC
                LIMIT 1
            )
            UNION ALL
            -- Above the level of the last claim, and on it: see claim_flow.
            (
                SELECT j.priority FROM howdah.live AS j
                WHERE NOT p_lowest AND lane.due_from IS NOT NULL AND j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority > lane.priority
                ORDER BY j.priority DESC
                LIMIT 1
            )
            UNION ALL
            (
                SELECT j.priority FROM howdah.live AS j
                WHERE NOT p_lowest AND lane.due_from IS NOT NULL AND j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority = lane.priority AND j.first_due_at >= lane.due_from
                ORDER BY j.flow_key
                LIMIT 1
            )
            UNION ALL
            (
                SELECT j.priority FROM howdah.live AS j
                WHERE p_lowest AND j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type
                ORDER BY j.priority
                LIMIT 1
            )
            UNION ALL
            SELECT behind.priority
            FROM (
                SELECT k.flow_key FROM howdah.flow_keys AS k
                WHERE k.job_type = lane.job_type AND k.rests_until <= howdah.clock()
                ORDER BY k.rests_until
                LIMIT 100
            ) AS rested
            CROSS JOIN LATERAL (
                SELECT j.priority FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.flow_key IS NOT NULL AND j.line <> 'later'
                    AND j.job_type = lane.job_type AND j.flow_key = rested.flow_key AND j.priority < coalesce(lane.below, 2147483648)
                ORDER BY j.priority DESC, j.first_due_at, j.id
                LIMIT 1
            ) AS behind
        ) AS head
    ) AS level
    WHERE level.priority IS NOT NULL
$$;
COMMENT ON FUNCTION howdah.flow_heads IS
    'Of each type with flow keys, the highest priority below a given one (NULL: of all) that has jobs for which claims look; or the lowest.'
    ' p_priorities, p_due_froms: on this level, jobs that were due earlier are left out; NULL: none. Part of claim.';
REVOKE ALL ON FUNCTION howdah.flow_heads FROM PUBLIC;
