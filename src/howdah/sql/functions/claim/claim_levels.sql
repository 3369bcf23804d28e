-- Where jobs have many priorities, claiming level by level would need a statement for each. Here the lanes are read across levels,
-- in the order of their index, and merged by (priority descending, run_at, id). As in claim_level, the order is certain up to the
-- first end of the chunks read. The due rows up to there are locked, except for locked ones. If a chunk ends with a job that is not
-- due, neither is the rest of that level, and the next round begins below it.
CREATE OR REPLACE FUNCTION howdah.claim_levels(p_lanes howdah.lane_head[], p_wanted int, p_include_crashed boolean) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_picked uuid[] := '{}';
    v_found uuid[];
    v_next uuid[];
    v_left int := p_wanted;
    -- Few lanes at first: the best one may have enough jobs.
    v_reach int := 4;
    v_chunk int := 2 * p_wanted / least(cardinality(p_lanes), v_reach) + 2;
    v_known_level bigint;
    v_known_run_at timestamptz;
    v_known_id uuid;
    -- True if the order is certain up to and including that job, false if only up to the job before it.
    v_known_itself boolean;
    v_in_crowd boolean;
BEGIN
    LOOP
        WITH lane AS MATERIALIZED (
            -- A level is a negated priority, so that everything is in ascending order.
            SELECT l.job_type, l.priority, -l.priority::bigint AS level, l.run_at, l.id,
                row_number() OVER (ORDER BY -l.priority::bigint, l.run_at, l.id) AS place
            FROM unnest(p_lanes) AS l
        ), entry AS MATERIALIZED (
            SELECT lane.place, -e.priority::bigint AS level, e.run_at, e.id, e.nth = v_chunk AS is_last
            FROM lane
            CROSS JOIN LATERAL (
                SELECT
                    j.priority, j.run_at, j.id, row_number() OVER (ORDER BY j.priority DESC, j.run_at, j.id) AS nth
                FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority <= least(lane.priority, -v_known_level)
                    AND (-j.priority::bigint, j.run_at, j.id) >= (lane.level, lane.run_at, lane.id)
                    AND (v_known_id IS NULL OR (-j.priority::bigint, j.run_at, j.id) > (v_known_level, v_known_run_at, v_known_id)
                        OR (NOT v_known_itself AND j.id = v_known_id))
                ORDER BY j.priority DESC, j.run_at, j.id
                LIMIT v_chunk
            ) AS e
            -- Each of these lanes has a job before the first one of any lane left out.
            WHERE lane.place <= v_reach
        ), known_until AS MATERIALIZED (
            SELECT
                entry.level,
                CASE WHEN entry.run_at <= howdah.clock() THEN entry.run_at ELSE 'infinity' END AS run_at,
                CASE WHEN entry.run_at <= howdah.clock() THEN entry.id ELSE 'ffffffff-ffff-ffff-ffff-ffffffffffff' END AS id,
                true AS itself
            FROM entry WHERE entry.is_last
            UNION ALL
            SELECT lane.level, lane.run_at, lane.id, false FROM lane WHERE lane.place = v_reach + 1
            ORDER BY level, run_at, id
            LIMIT 1
        )
        SELECT k.level, k.run_at, k.id, k.itself, next.ids, next.in_crowd
        INTO v_known_level, v_known_run_at, v_known_id, v_known_itself, v_next, v_in_crowd
        FROM (SELECT) AS it
        LEFT JOIN known_until AS k ON true
        CROSS JOIN LATERAL (
            SELECT
                array_agg(e.id) FILTER (
                    WHERE e.run_at <= howdah.clock() AND (
                        k.id IS NULL OR (e.level, e.run_at, e.id) < (k.level, k.run_at, k.id) OR (k.itself AND e.id = k.id)
                    )
                ) AS ids,
                4 * count(DISTINCT (e.place, e.level)) < count(*) AND 2 * count(*) FILTER (WHERE e.run_at <= howdah.clock()) < count(*)
                    AS in_crowd
            FROM entry AS e
        ) AS next;

        SELECT array_agg(locked.id) INTO v_found FROM (
            SELECT j.id FROM howdah.live AS j
            -- Not the predicate of the lanes' index: the planner must find these rows by their ids, whatever its statistics.
            WHERE j.id = ANY (v_next) AND j.status NOT IN ('claimed', 'running') AND j.attempts < j.max_attempts
                AND j.run_at <= howdah.clock()
                AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                AND (p_include_crashed OR j.crashes = 0)
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT v_left
            FOR UPDATE SKIP LOCKED
        ) AS locked;
        v_picked := v_picked || v_found;
        v_left := p_wanted - cardinality(v_picked);
        EXIT WHEN v_known_id IS NULL OR v_left = 0;

        -- More lanes, if the next lane was the limit. Otherwise larger chunks: locked jobs, and jobs that are not due, are passed over in
        -- ever larger steps. But not where many jobs of one level are not due: the next round begins below that level anyway.
        v_chunk := CASE
            WHEN NOT v_known_itself THEN greatest(v_chunk / 2, 4)
            WHEN v_in_crowd THEN greatest(v_chunk / 2, 16)
            ELSE least(v_chunk * 2, 10000)
        END;
        v_reach := CASE WHEN v_known_itself THEN v_reach ELSE least(v_reach * 2, 100000) END;
    END LOOP;
    RETURN v_picked;
END
$$;
COMMENT ON FUNCTION howdah.claim_levels IS
    'Locks the next jobs of several lanes by priority, then in the order in which they fell due, across many priorities. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_levels FROM PUBLIC;
