-- lane_heads hops from priority to priority, with one lookup each. Where a type has thousands of priorities and none near the top is
-- due, this reads the entries in portions instead: in the order of the index, and ever larger ones as long as they contain many
-- priorities. The rest of the last priority in a portion is not due either, and is skipped. Where one priority has many jobs, hops
-- read less than portions: then it hops again, some hundred steps at once.
CREATE OR REPLACE FUNCTION howdah.far_head(
    p_job_type varchar,
    p_below bigint,
    p_cursor_types varchar[],
    p_cursor_priorities int[],
    p_cursor_run_ats timestamptz[],
    p_cursor_ids uuid[]
) RETURNS TABLE (priority int, run_at timestamptz, id uuid)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_now timestamptz := howdah.clock();
    v_below bigint := p_below;
    v_cursor int;
    v_floor bigint;
    v_portion int := 64;
    v_read bigint;
    v_levels bigint;
    v_last int;
BEGIN
    LOOP
        SELECT c.n, p_cursor_priorities[c.n] INTO v_cursor, v_floor
        FROM unnest(array_positions(p_cursor_types, p_job_type)) AS c (n)
        WHERE p_cursor_priorities[c.n] < v_below
        ORDER BY p_cursor_priorities[c.n] DESC
        LIMIT 1;

        LOOP
            WITH entry AS MATERIALIZED (
                SELECT j.priority, j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = p_job_type
                    AND j.priority < v_below AND j.priority > coalesce(v_floor, -2147483649)
                ORDER BY j.priority DESC, j.run_at, j.id
                LIMIT v_portion
            )
            SELECT seen.jobs, seen.levels, seen.last, due.priority, due.run_at, due.id
            INTO v_read, v_levels, v_last, priority, run_at, id
            FROM (
                SELECT count(*) AS jobs, count(DISTINCT entry.priority) AS levels, min(entry.priority) AS last FROM entry
            ) AS seen
            LEFT JOIN LATERAL (SELECT * FROM entry WHERE entry.run_at <= v_now LIMIT 1) AS due ON true;
            IF id IS NOT NULL THEN
                RETURN NEXT;
                RETURN;
            END IF;
            EXIT WHEN v_read < v_portion;
            v_below := v_last;
            IF v_levels * 16 > v_read THEN
                v_portion := least(v_portion * 2, 4096);
                CONTINUE;
            END IF;

            v_portion := 64;
            WITH RECURSIVE walk AS (
                SELECT v_below AS priority, NULL::timestamptz AS run_at, NULL::uuid AS id, 0 AS steps
                UNION ALL
                SELECT step.priority, step.run_at, step.id, walk.steps + 1
                FROM walk
                CROSS JOIN LATERAL (
                    SELECT j.priority::bigint AS priority, j.run_at, j.id FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = p_job_type
                        AND j.priority < walk.priority AND j.priority > coalesce(v_floor, -2147483649)
                    ORDER BY j.priority DESC, j.run_at, j.id
                    LIMIT 1
                ) AS step
                WHERE walk.steps < 256 AND (walk.run_at IS NULL OR walk.run_at > v_now)
            )
            SELECT walk.steps, walk.priority, walk.run_at, walk.id INTO v_read, v_below, run_at, id
            FROM walk ORDER BY walk.steps DESC LIMIT 1;
            IF run_at <= v_now THEN
                priority := v_below;
                RETURN NEXT;
                RETURN;
            END IF;
            id := NULL;
            EXIT WHEN v_read < 256;
        END LOOP;
        EXIT WHEN v_cursor IS NULL;

        SELECT j.priority, j.run_at, j.id INTO priority, run_at, id FROM howdah.live AS j
        WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = p_job_type AND j.priority = v_floor
            AND (j.run_at, j.id) > (p_cursor_run_ats[v_cursor], p_cursor_ids[v_cursor])
        ORDER BY j.run_at, j.id
        LIMIT 1;
        IF run_at <= v_now THEN
            RETURN NEXT;
            RETURN;
        END IF;
        v_below := v_floor;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.far_head IS 'The first due job of a type below a priority, where there are many priorities. Part of claim.';
REVOKE ALL ON FUNCTION howdah.far_head FROM PUBLIC;
