CREATE OR REPLACE FUNCTION howdah.next_due(p_job_types varchar[]) RETURNS interval
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
-- A lane must be read in the order of its index, and only as far as needed. While the statistics show no pending jobs, the planner
-- rates an index for plain clients as equally good.
SET enable_sort = off
SET enable_incremental_sort = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
BEGIN
    RETURN (
        WITH RECURSIVE named AS MATERIALIZED (
            SELECT DISTINCT n.job_type, coalesce(t.keyed, false) AS keyed
            FROM unnest(p_job_types) AS n (job_type)
            LEFT JOIN howdah.types AS t ON t.job_type = n.job_type
            WHERE t.paused_at IS NULL
        ), lane AS (
            SELECT named.job_type, 2147483648 AS priority, 0 AS steps FROM named WHERE NOT named.keyed
            UNION ALL
            SELECT lane.job_type, head.priority, lane.steps + 1
            FROM lane
            CROSS JOIN LATERAL (
                SELECT j.priority::bigint AS priority FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority < lane.priority
                ORDER BY j.priority DESC, j.run_at, j.id
                LIMIT 1
            ) AS head
            WHERE lane.steps < 100
        )
        SELECT least(
            min(next.run_at) - howdah.clock(),
            -- The caller is idle: another look in a second costs less than a look at thousands of priorities now.
            CASE WHEN EXISTS (SELECT FROM lane WHERE lane.steps = 100) THEN interval '1 second' END
        )
        FROM (
            SELECT soonest.run_at
            FROM lane
            CROSS JOIN LATERAL (
                SELECT j.run_at FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority = lane.priority AND j.run_at > howdah.clock() AND j.run_at < 'infinity'
                ORDER BY j.run_at, j.id
                LIMIT 1
            ) AS soonest
            UNION ALL
            SELECT soonest.run_at
            FROM named
            CROSS JOIN LATERAL (
                (
                    SELECT j.run_at FROM howdah.live AS j
                    WHERE j.line = 'later' AND j.status = 'pending' AND j.job_type = named.job_type AND j.run_at < 'infinity'
                    ORDER BY j.run_at
                    LIMIT 1
                )
                UNION ALL
                (
                    SELECT k.rests_until FROM howdah.flow_keys AS k
                    WHERE k.job_type = named.job_type AND k.rests_until > howdah.clock()
                    ORDER BY k.rests_until
                    LIMIT 1
                )
            ) AS soonest
            WHERE named.keyed
            UNION ALL
            -- A rate is used up. Not sooner than in some milliseconds: then several jobs can start at once.
            SELECT greatest(bucket.has_tokens_at, howdah.clock() + interval '10 milliseconds')
            FROM named
            JOIN howdah.types AS t ON t.job_type = named.job_type AND (t.rated OR t.groups IS NOT NULL)
            CROSS JOIN LATERAL (
                SELECT coalesce(j.cost, t.cost, 1) AS cost FROM howdah.live AS j
                WHERE j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = named.job_type
                ORDER BY j.priority DESC, j.flow_key
                LIMIT 1
            ) AS first
            CROSS JOIN LATERAL (
                SELECT max(b.has_tokens_at) AS has_tokens_at FROM (
                    SELECT howdah.has_tokens_at(howdah.rate_of_type(t), b.full_at, first.cost) FROM howdah.flow_types AS b
                    WHERE b.job_type = t.job_type AND howdah.rate_of_type(t) IS NOT NULL
                    UNION ALL
                    SELECT howdah.has_tokens_at(g.rate, g.full_at, first.cost) FROM howdah.flow_groups AS g
                    WHERE g.name = ANY (t.groups) AND g.rate IS NOT NULL
                ) AS b (has_tokens_at)
            ) AS bucket
            WHERE named.keyed AND bucket.has_tokens_at > howdah.clock()
        ) AS next
        WHERE next.run_at > howdah.clock() AND next.run_at < 'infinity'
    );
END
$$;
COMMENT ON FUNCTION howdah.next_due IS
    'The time until the first job of these types that is not due yet becomes due, or may start by a rate that is used up; NULL if there is none, or if all wait for'
    ' other jobs. Paused types and keys do not count. At most a second for a type with'
    ' a hundred priorities or more: then only the highest are looked at.';
REVOKE ALL ON FUNCTION howdah.next_due FROM PUBLIC;
