CREATE OR REPLACE FUNCTION howdah.live_counts(p_cap int DEFAULT 2000)
RETURNS TABLE (
    job_type varchar, pending bigint, scheduled bigint, exact boolean, claimed bigint, running bigint, stalled bigint, oldest_due timestamptz
)
-- It only reads. EXPLAIN is not allowed in a stable function.
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Of a backlog of millions it reads p_cap index entries for each lane, whatever the statistics are.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_cap int := greatest(coalesce(p_cap, 2000), 1);
    v_now timestamptz := howdah.clock();
    v_plan json;
BEGIN
    FOR job_type, pending, scheduled, exact, claimed, running, stalled, oldest_due IN
        WITH RECURSIVE lane AS (
            (
                SELECT j.job_type, j.priority FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                ORDER BY j.job_type, j.priority DESC LIMIT 1
            )
            UNION ALL
            SELECT n.job_type, n.priority FROM lane AS l CROSS JOIN LATERAL (
                (
                    SELECT j.job_type, j.priority FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = l.job_type AND j.priority < l.priority
                    ORDER BY j.priority DESC LIMIT 1
                )
                UNION ALL
                (
                    SELECT j.job_type, j.priority FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type > l.job_type
                    ORDER BY j.job_type, j.priority DESC LIMIT 1
                )
                LIMIT 1
            ) AS n
        ), lanes AS (
            -- Where there are many, fewer jobs of each are counted: 20,000 reads are some ten milliseconds.
            SELECT l.job_type, l.priority, least(v_cap, greatest(20000 / (count(*) OVER ())::int, 20)) AS cap FROM (SELECT * FROM lane LIMIT 500) AS l
        ), counted AS (
            SELECT l.job_type, due.jobs AS due, later.jobs AS later, head.run_at, l.cap
            FROM lanes AS l
            CROSS JOIN LATERAL (
                SELECT count(*) AS jobs FROM (
                    SELECT FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = l.job_type AND j.priority = l.priority
                        AND j.run_at <= v_now
                    LIMIT l.cap
                ) AS few
            ) AS due
            CROSS JOIN LATERAL (
                SELECT count(*) AS jobs FROM (
                    SELECT FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = l.job_type AND j.priority = l.priority
                        AND j.run_at > v_now
                    LIMIT l.cap
                ) AS few
            ) AS later
            LEFT JOIN LATERAL (
                SELECT j.run_at FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = l.job_type AND j.priority = l.priority
                    AND j.run_at <= v_now
                ORDER BY j.run_at, j.id LIMIT 1
            ) AS head ON true
        ), waiting AS (
            SELECT
                c.job_type, sum(c.due + c.later) AS pending, sum(c.later) AS scheduled, bool_and(c.due < c.cap AND c.later < c.cap) AS exact,
                min(c.run_at) AS oldest_due
            FROM counted AS c GROUP BY c.job_type
        ), held AS (
            SELECT
                j.job_type, count(*) FILTER (WHERE j.status = 'claimed') AS claimed, count(*) FILTER (WHERE j.status = 'running') AS running,
                count(*) FILTER (
                    WHERE j.status = 'running' AND j.progress_report -> 'token' = to_jsonb(j.token) AND j.progress_report -> 'stalls' >= '1'
                        AND j.progress_report -> 'stalls' < to_jsonb(extract(epoch FROM v_now))
                ) AS stalled
            FROM howdah.live AS j WHERE j.status IN ('claimed', 'running') GROUP BY j.job_type
        )
        SELECT
            coalesce(w.job_type, h.job_type), coalesce(w.pending, 0), coalesce(w.scheduled, 0), coalesce(w.exact, true), coalesce(h.claimed, 0),
            coalesce(h.running, 0), coalesce(h.stalled, 0), w.oldest_due
        FROM waiting AS w FULL JOIN held AS h ON h.job_type = w.job_type
        ORDER BY 1
    LOOP
        IF NOT exact THEN
            -- The planner's estimate: a count would read all of them.
            FOR v_plan IN EXPLAIN (FORMAT JSON) SELECT FROM howdah.live AS j WHERE j.status = 'pending' AND j.job_type = live_counts.job_type LOOP
                pending := greatest(pending, (v_plan -> 0 -> 'Plan' ->> 'Plan Rows')::numeric::bigint);
            END LOOP;
        END IF;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.live_counts IS
    'How many jobs of each type wait, are scheduled, are claimed, run, and have stalled, and since when the first of them has been due. It counts p_cap jobs'
    ' of each type and priority at most, and fewer if there are many types and priorities. Where there are more, exact is false, pending is the'
    ' planner''s estimate, and scheduled a lower bound.';
REVOKE ALL ON FUNCTION howdah.live_counts FROM PUBLIC;
