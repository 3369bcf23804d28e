-- Merges lanes by (run_at, id), and locks what it returns. From each lane it reads as many rows as that lane will probably give.
-- The order is then certain up to the first end of these chunks. The rows up to there are locked, except for locked ones, and the
-- next round reads on. Where many lanes give a few rows each, the number per lane is random, and chunks large enough for every case
-- would be read mostly in vain. There, a sample of the lanes shows how far the wanted rows probably reach (the horizon), and no lane
-- is read further.
CREATE OR REPLACE FUNCTION howdah.claim_level(p_lanes howdah.lane_head[], p_wanted int, p_include_crashed boolean) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_picked uuid[] := '{}';
    v_found uuid[];
    v_next uuid[];
    v_sources bigint[];
    v_chunks int[];
    v_share int;
    v_sample_every int;
    v_chunk int;
    v_left int := p_wanted;
    v_reach int := p_wanted;
    v_known_run_at timestamptz;
    v_known_id uuid;
    v_known_itself boolean;
BEGIN
    IF p_lanes IS NULL OR p_wanted < 1 THEN
        RETURN v_picked;
    ELSIF EXISTS (SELECT FROM unnest(p_lanes) AS l WHERE l.max_jobs < p_wanted) THEN
        RETURN howdah.claim_one_by_one(p_lanes, p_wanted, p_include_crashed);
    END IF;

    -- One round is enough if the jobs of all lanes are mixed at random.
    v_share := p_wanted / least(cardinality(p_lanes), p_wanted);
    -- One of this many lanes belongs to the sample.
    v_sample_every := CASE WHEN v_share <= 10 THEN least(cardinality(p_lanes), p_wanted) / 20 + 1 END;
    v_chunk := CASE WHEN v_sample_every IS NULL THEN v_share + 3 * sqrt(v_share) + 2 ELSE 4 * v_share + 16 END;
    v_chunks := array_fill(v_chunk, ARRAY[cardinality(p_lanes)]);
    LOOP
        WITH lane AS MATERIALIZED (
            SELECT l.*, row_number() OVER (ORDER BY l.run_at, l.id) AS place
            FROM (
                SELECT
                    l.number, l.job_type, l.priority, least(l.chunk, v_reach) AS chunk,
                    CASE WHEN known.covers THEN v_known_run_at ELSE l.run_at END AS run_at,
                    CASE WHEN known.covers THEN v_known_id ELSE l.id END AS id
                FROM unnest(p_lanes, v_chunks) WITH ORDINALITY
                    AS l (job_type, priority, run_at, id, keyed, max_jobs, chunk, number)
                CROSS JOIN LATERAL (SELECT (l.run_at, l.id) <= (v_known_run_at, v_known_id) AS covers) AS known
            ) AS l
        ), sample AS MATERIALIZED (
            SELECT d.run_at, d.id
            FROM lane
            CROSS JOIN LATERAL (
                SELECT j.run_at, j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority = lane.priority
                    AND j.run_at <= howdah.clock()
                    AND (j.run_at, j.id) >= (lane.run_at, lane.id)
                    AND NOT coalesce(v_known_itself AND j.id = v_known_id, false)
                    AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                    AND (p_include_crashed OR j.crashes = 0)
                ORDER BY j.run_at, j.id
                OFFSET v_left::bigint * v_reach / p_wanted / least(cardinality(p_lanes), p_wanted)
                LIMIT 1
            ) AS d
            WHERE lane.place <= v_reach AND lane.place % v_sample_every = 0
        ), horizon AS MATERIALIZED (
            SELECT sample.run_at, sample.id FROM sample
            ORDER BY sample.run_at, sample.id
            OFFSET (SELECT count(*) / 2 FROM sample)
            LIMIT 1
        ), candidate AS MATERIALIZED (
            SELECT lane.number, c.run_at, c.id, c.nth = lane.chunk AS is_last
            FROM lane
            LEFT JOIN horizon ON true
            CROSS JOIN LATERAL (
                SELECT j.run_at, j.id, row_number() OVER (ORDER BY j.run_at, j.id) AS nth FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.job_type = lane.job_type AND j.priority = lane.priority
                    AND j.run_at <= howdah.clock()
                    AND (j.run_at, j.id) >= (lane.run_at, lane.id)
                    AND (j.run_at, j.id) <= (
                        coalesce(horizon.run_at, 'infinity'), coalesce(horizon.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                    )
                    AND NOT coalesce(v_known_itself AND j.id = v_known_id, false)
                    AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                    AND (p_include_crashed OR j.crashes = 0)
                ORDER BY j.run_at, j.id
                LIMIT lane.chunk
            ) AS c
            -- Each of these lanes has a job before the first one of any lane left out.
            WHERE lane.place <= v_reach
        ), known_until AS MATERIALIZED (
            SELECT candidate.run_at, candidate.id, true AS itself FROM candidate WHERE candidate.is_last
            UNION ALL
            SELECT lane.run_at, lane.id, false FROM lane WHERE lane.place = v_reach + 1
            UNION ALL
            SELECT horizon.run_at, horizon.id, true FROM horizon
            ORDER BY run_at, id
            LIMIT 1
        )
        SELECT k.run_at, k.id, k.itself, next.ids, next.sources
        INTO v_known_run_at, v_known_id, v_known_itself, v_next, v_sources
        FROM (SELECT) AS it
        LEFT JOIN known_until AS k ON true
        CROSS JOIN LATERAL (
            SELECT array_agg(c.id) AS ids, array_agg(c.number) AS sources FROM candidate AS c
            WHERE k.id IS NULL OR (c.run_at, c.id) <= (k.run_at, k.id)
        ) AS next;

        SELECT array_agg(locked.id) INTO v_found FROM (
            SELECT j.id FROM howdah.live AS j
            -- Not the predicate of the lanes' index: the planner must find these rows by their ids, whatever its statistics.
            WHERE j.id = ANY (v_next) AND j.status NOT IN ('claimed', 'running') AND j.attempts < j.max_attempts
                AND j.run_at <= howdah.clock()
            ORDER BY j.run_at, j.id
            LIMIT v_left
            FOR UPDATE SKIP LOCKED
        ) AS locked;
        v_picked := v_picked || v_found;
        v_left := p_wanted - cardinality(v_picked);
        EXIT WHEN v_known_id IS NULL OR v_left = 0;

        -- A lane that gave much will probably give much again. Locked rows are passed over in ever larger steps.
        v_reach := least(v_reach * 2, 100000);
        SELECT array_agg(4 * coalesce(share.jobs, 0) + v_chunk ORDER BY lane.number) INTO v_chunks
        FROM generate_subscripts(p_lanes, 1) AS lane (number)
        LEFT JOIN (
            SELECT source.number, count(*)::int AS jobs FROM unnest(v_sources) AS source (number) GROUP BY source.number
        ) AS share ON share.number = lane.number;
    END LOOP;
    RETURN v_picked;
END
$$;
COMMENT ON FUNCTION howdah.claim_level IS
    'Locks the next jobs of several lanes in the order in which they fell due. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_level FROM PUBLIC;
