-- Like claim_level, for types that have a limit: whether a job may be taken depends on how many jobs before it were
-- locked successfully. Lanes of one type share its limit.
--
-- From a lane near its limit, the first round reads no more rows than the limit allows. If some of those are locked by others, the
-- lane may give more after all: then the merge stops at the last row read from it, and the next round reads further.
CREATE OR REPLACE FUNCTION howdah.claim_one_by_one(p_lanes howdah.lane_head[], p_wanted int, p_include_crashed boolean) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lanes howdah.lane_head[] := p_lanes;
    v_picked uuid[] := '{}';
    v_reach int := p_wanted;
    v_limited varchar[];
    v_limits int[];
    v_limit int;
    v_chunk int;
    v_last uuid;
    v_queue howdah.lane_head[];
    v_stops uuid[];
    v_job howdah.lane_head;
BEGIN
    SELECT array_agg(l.job_type), array_agg(l.max_jobs) INTO v_limited, v_limits
    FROM (SELECT DISTINCT job_type, max_jobs FROM unnest(p_lanes) WHERE max_jobs < p_wanted) AS l;

    WHILE v_lanes IS NOT NULL AND cardinality(v_picked) < p_wanted LOOP
        v_chunk := 2 * v_reach / least(cardinality(v_lanes), v_reach) + 1;
        WITH lane AS MATERIALIZED (
            SELECT
                l.job_type, l.priority, l.run_at, l.id, limits.max_jobs,
                row_number() OVER (ORDER BY l.run_at, l.id) AS place,
                least(v_chunk, limits.max_jobs + v_reach - p_wanted) AS chunk
            FROM unnest(v_lanes) AS l
            CROSS JOIN LATERAL (SELECT v_limits[array_position(v_limited, l.job_type)] AS max_jobs) AS limits
            WHERE limits.max_jobs IS DISTINCT FROM 0
        ), candidate AS MATERIALIZED (
            SELECT lane.place, lane.chunk, lane.max_jobs, lane.job_type, lane.priority, c.run_at, c.id
            FROM lane
            CROSS JOIN LATERAL (
                SELECT j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority = lane.priority
                    AND j.run_at <= howdah.clock()
                    AND (j.run_at, j.id) >= (lane.run_at, lane.id) AND j.id IS DISTINCT FROM v_last
                    AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                    AND (p_include_crashed OR j.crashes = 0)
                ORDER BY j.run_at, j.id
                LIMIT lane.chunk
            ) AS c
            -- Each of these lanes has a job before the first one of any lane left out.
            WHERE lane.place <= v_reach
        ), cut_off AS MATERIALIZED (
            SELECT DISTINCT ON (c.place) c.place, c.run_at, c.id, coalesce(c.jobs >= c.max_jobs, false) AS may_be_spent
            FROM (
                SELECT *, count(*) OVER (PARTITION BY place) AS jobs FROM candidate
            ) AS c
            WHERE c.jobs = c.chunk
            ORDER BY c.place, c.run_at DESC, c.id DESC
        ), known_until AS MATERIALIZED (
            SELECT cut_off.run_at, cut_off.id FROM cut_off WHERE NOT cut_off.may_be_spent
            UNION ALL
            SELECT lane.run_at, lane.id FROM lane WHERE lane.place = v_reach + 1
            ORDER BY run_at, id
            LIMIT 1
        ), chosen AS MATERIALIZED (
            SELECT c.* FROM candidate AS c
            WHERE NOT EXISTS (SELECT FROM known_until)
                OR (c.run_at, c.id) <= (SELECT k.run_at, k.id FROM known_until AS k)
            ORDER BY c.run_at, c.id
            LIMIT v_reach
        ), continued AS (
            SELECT DISTINCT ON (c.place) c.place, c.job_type, c.priority, c.run_at, c.id
            FROM candidate AS c WHERE c.id NOT IN (SELECT chosen.id FROM chosen)
            ORDER BY c.place, c.run_at, c.id
        ), next_lane AS (
            SELECT continued.job_type, continued.priority, continued.run_at, continued.id FROM continued
            UNION ALL
            SELECT lane.job_type, lane.priority, cut_off.run_at, cut_off.id
            FROM cut_off JOIN lane USING (place)
            WHERE NOT cut_off.may_be_spent AND cut_off.place NOT IN (SELECT continued.place FROM continued)
            UNION ALL
            SELECT lane.job_type, lane.priority, lane.run_at, lane.id
            FROM lane WHERE lane.place > v_reach
        )
        SELECT
            (
                SELECT array_agg(
                    ROW(c.job_type, c.priority, c.run_at, c.id, false, NULL)::howdah.lane_head ORDER BY c.run_at, c.id
                )
                FROM chosen AS c
            ),
            (SELECT array_agg(cut_off.id) FROM cut_off WHERE cut_off.may_be_spent),
            coalesce((SELECT chosen.id FROM chosen ORDER BY chosen.run_at DESC, chosen.id DESC LIMIT 1), v_last),
            (SELECT array_agg(ROW(n.job_type, n.priority, n.run_at, n.id, false, NULL)::howdah.lane_head) FROM next_lane AS n)
        INTO v_queue, v_stops, v_last, v_lanes;

        FOREACH v_job IN ARRAY coalesce(v_queue, '{}') LOOP
            v_limit := array_position(v_limited, v_job.job_type);
            CONTINUE WHEN v_limits[v_limit] = 0;
            PERFORM FROM howdah.live AS j
            -- Not the predicate of the lanes' index: see claim_level.
            WHERE j.id = v_job.id AND j.status NOT IN ('claimed', 'running') AND j.attempts < j.max_attempts
                AND j.run_at <= howdah.clock()
            FOR UPDATE SKIP LOCKED;
            IF FOUND THEN
                v_picked := array_append(v_picked, v_job.id);
                IF v_limit IS NOT NULL THEN
                    v_limits[v_limit] := v_limits[v_limit] - 1;
                END IF;
            END IF;
            EXIT WHEN cardinality(v_picked) = p_wanted;
            IF v_limits[v_limit] > 0 AND v_job.id = ANY (v_stops) THEN
                v_last := v_job.id;
                SELECT array_agg(l.lane) INTO v_lanes FROM (
                    SELECT DISTINCT ON (lane.job_type, lane.priority) lane
                    FROM unnest(v_lanes || v_queue) AS lane
                    WHERE (lane.run_at, lane.id) >= (v_job.run_at, v_job.id)
                    ORDER BY lane.job_type, lane.priority, lane.run_at, lane.id
                ) AS l;
                EXIT;
            END IF;
        END LOOP;
        -- Locked rows are passed over in ever larger steps.
        v_reach := least(v_reach * 2, 100000);
    END LOOP;
    RETURN v_picked;
END
$$;
COMMENT ON FUNCTION howdah.claim_one_by_one IS
    'Locks the next jobs of several lanes in the order in which they fell due, within limits. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_one_by_one FROM PUBLIC;
