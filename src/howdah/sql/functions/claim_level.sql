-- Merges lanes of one priority by (run_at, id), and locks what it returns.
CREATE OR REPLACE FUNCTION howdah.claim_level(p_lanes howdah.lane_head[], p_wanted int) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lanes howdah.lane_head[] := p_lanes;
    v_picked uuid[] := '{}';
    v_found uuid[];
    v_wanted int := p_wanted;
    v_reach int := p_wanted;
    v_has_ordered boolean := EXISTS (SELECT FROM unnest(p_lanes) AS l WHERE l.ordered);
    v_chunk int;
    v_last uuid;
    v_chosen uuid[];
    v_chosen_ordered varchar[];
BEGIN
    WHILE v_lanes IS NOT NULL AND v_wanted > 0 LOOP
        v_chunk := 2 * v_reach / least(cardinality(v_lanes), v_reach) + 1;
        WITH lane AS MATERIALIZED (
            SELECT l.*, row_number() OVER (ORDER BY l.run_at, l.id) AS place FROM unnest(v_lanes) AS l
        ), candidate AS MATERIALIZED (
            SELECT lane.job_type, lane.priority, lane.ordered, c.run_at, c.id
            FROM lane
            CROSS JOIN LATERAL (
                (
                    SELECT j.run_at, j.id FROM howdah.live AS j
                    WHERE NOT lane.ordered AND j.status = 'pending' AND j.attempts < j.max_attempts
                        AND j.job_type = lane.job_type AND j.priority = lane.priority
                        AND j.run_at <= howdah.clock()
                        AND (j.run_at, j.id) >= (lane.run_at, lane.id) AND j.id IS DISTINCT FROM v_last
                        AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                    ORDER BY j.run_at, j.id
                    LIMIT v_chunk
                )
                UNION ALL
                SELECT lane.run_at, lane.id WHERE lane.ordered
            ) AS c
            -- Each of these lanes has a job before the first one of any lane left out.
            WHERE lane.place <= v_reach
        ), cut_off AS MATERIALIZED (
            SELECT DISTINCT ON (c.job_type) c.job_type, c.run_at, c.id
            FROM (
                SELECT *, count(*) OVER (PARTITION BY job_type) AS jobs FROM candidate WHERE NOT ordered
            ) AS c
            WHERE c.jobs = v_chunk
            ORDER BY c.job_type, c.run_at DESC, c.id DESC
        ), known_until AS MATERIALIZED (
            SELECT cut_off.run_at, cut_off.id FROM cut_off
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
            SELECT DISTINCT ON (c.job_type) c.job_type, c.priority, c.run_at, c.id, c.ordered
            FROM candidate AS c WHERE c.id NOT IN (SELECT chosen.id FROM chosen)
            ORDER BY c.job_type, c.run_at, c.id
        ), next_lane AS (
            SELECT continued.* FROM continued
            UNION ALL
            SELECT lane.job_type, lane.priority, cut_off.run_at, cut_off.id, false
            FROM cut_off JOIN lane USING (job_type)
            WHERE cut_off.job_type NOT IN (SELECT continued.job_type FROM continued)
            UNION ALL
            SELECT lane.job_type, lane.priority, lane.run_at, lane.id, lane.ordered
            FROM lane WHERE lane.place > v_reach
        )
        SELECT
            (SELECT array_agg(chosen.id) FROM chosen WHERE NOT chosen.ordered),
            (SELECT array_agg(chosen.job_type) FROM chosen WHERE chosen.ordered),
            coalesce((SELECT chosen.id FROM chosen ORDER BY chosen.run_at DESC, chosen.id DESC LIMIT 1), v_last),
            (SELECT array_agg(ROW(n.job_type, n.priority, n.run_at, n.id, n.ordered)::howdah.lane_head) FROM next_lane AS n)
        INTO v_chosen, v_chosen_ordered, v_last, v_lanes;

        SELECT array_agg(taken.id) INTO v_found FROM (
            SELECT j.id FROM howdah.live AS j
            WHERE j.id = ANY (v_chosen) AND j.status = 'pending' AND j.attempts < j.max_attempts
                AND j.run_at <= howdah.clock()
            ORDER BY j.run_at, j.id
            LIMIT v_wanted
            FOR UPDATE SKIP LOCKED
        ) AS taken;
        v_picked := v_picked || v_found;

        FOR v_place IN 1 .. coalesce(cardinality(v_chosen_ordered), 0) LOOP
            v_picked := array_cat(v_picked, howdah.claim_ordered(v_chosen_ordered[v_place]));
        END LOOP;
        v_wanted := p_wanted - cardinality(v_picked);
        -- What others hold is passed over in ever larger steps, but ordered types have to be tried one after the other.
        v_reach := CASE WHEN v_has_ordered THEN v_wanted ELSE least(v_reach * 2, 100000) END;
    END LOOP;
    RETURN v_picked;
END
$$;
COMMENT ON FUNCTION howdah.claim_level IS 'Takes the next jobs of several lanes of one priority, in order. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_level FROM PUBLIC;
