-- Claims are exact: at the statement's snapshot no unlocked due job of a named type that is below its limit sorts before a returned
-- one, by (priority descending, run_at, id). Each type is a lane. Lanes are merged one level (priority) after the other:
-- * A level with one lane is a single scan that skips locked rows. So is each lane of a level where all limits together fit.
-- * Any other level is read a few rows per lane at a time, as far as the rows read are certain to come next.
-- * After some levels with few jobs each, the rest is merged across levels (claim_levels).
-- Types with flow keys give their jobs key by key (claim_flow). On a level that has both, these and the others get half each.
-- So a claim reads about n + types rows, and locks none that it does not return.
CREATE OR REPLACE FUNCTION howdah.claim(
    p_worker_id varchar,
    p_job_types varchar[],
    p_batch_size int DEFAULT 10,
    p_start int DEFAULT 0,
    p_cursor_types varchar[] DEFAULT '{}',
    p_cursor_priorities int[] DEFAULT '{}',
    p_cursor_run_ats timestamptz[] DEFAULT '{}',
    p_cursor_ids uuid[] DEFAULT '{}',
    p_lease interval DEFAULT '10 minutes',
    p_incarnation uuid DEFAULT NULL,
    p_limits int[] DEFAULT NULL,
    p_oldest boolean DEFAULT false,
    p_include_crashed boolean DEFAULT true,
    p_prefetch_types varchar[] DEFAULT NULL,
    p_start_ahead boolean DEFAULT false,
    p_lazily boolean DEFAULT false
) RETURNS SETOF howdah.live
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A plan made while the table was empty must not scan all of it once it is full.
SET enable_seqscan = off
-- A lane must be read in the order of its index, and only as far as needed. While the statistics show no pending jobs, the planner
-- rates an index for plain clients as equally good.
SET enable_sort = off
SET enable_incremental_sort = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_types varchar[];
    v_limits int[];
    v_flow_types varchar[];
    v_flow_limits int[];
    v_ordered_types varchar[];
    v_flow_lanes howdah.lane_head[];
    -- A job with a flow key is claimed only into a free slot: what is held counts as running.
    v_flow_room int := CASE
        WHEN p_start > 0 OR p_prefetch_types IS NOT NULL THEN least(greatest(p_start, 0), p_batch_size) ELSE p_batch_size
    END;
    v_picked uuid[] := '{}';
    -- True if the order of v_picked differs from the order of the result.
    v_mixed boolean := p_oldest;
    v_found uuid[];
    v_wanted int;
    v_room bigint;
    v_level int;
    v_heads howdah.lane_head[];
    v_lanes howdah.lane_head[];
    v_lane howdah.lane_head;
    v_generation bigint;
    -- The token of this claim, unless a job has had a later one: see next_token.
    v_token bigint := howdah.next_token(0);
    v_lease interval;
    v_lease_until timestamptz;
    v_start int := greatest(p_start, 0);
    v_starts boolean;
    v_too_slow uuid;
    v_levels int := 0;
    v_below bigint := 2147483648;
    v_run_at timestamptz;
    v_id uuid;
BEGIN
    PERFORM howdah.check_worker_id(p_worker_id);
    IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 0 AND 100000 THEN
        RAISE EXCEPTION 'batch_size is %, and must be from 0 to 100000', p_batch_size USING ERRCODE = 'JQ001';
    END IF;
    IF p_limits IS NOT NULL AND cardinality(p_limits) IS DISTINCT FROM cardinality(p_job_types) THEN
        RAISE EXCEPTION '% limits were given for % job types', cardinality(p_limits), coalesce(cardinality(p_job_types), 0)
            USING ERRCODE = 'JQ001';
    ELSIF 0 > ANY (p_limits) THEN
        RAISE EXCEPTION 'a limit is %, and must not be negative', (SELECT min(l.max_jobs) FROM unnest(p_limits) AS l (max_jobs))
            USING ERRCODE = 'JQ001';
    END IF;
    PERFORM howdah.check_span(p_lease, 'lease');
    IF p_lazily THEN
        -- A claim that a crash of the server undoes is never followed by one with the same token: see next_token.
        SET LOCAL synchronous_commit = off;
    END IF;
    SELECT w.generation INTO v_generation FROM howdah.workers AS w
    WHERE w.worker_id = p_worker_id AND w.incarnation = coalesce(p_incarnation, w.incarnation);
    IF NOT FOUND THEN
        IF p_incarnation IS NOT NULL THEN
            RAISE EXCEPTION 'worker % is not registered (any more) under this incarnation', p_worker_id
                USING ERRCODE = 'JQ006', HINT = 'The jobs that it held were released. Register it again.';
        END IF;
        v_lease := coalesce(p_lease, interval '10 minutes');
        v_lease_until := howdah.lease_clock() + v_lease;
    END IF;

    SELECT
        array_agg(named.job_type) FILTER (WHERE NOT coalesce(t.keyed, false)),
        array_agg(named.max_jobs) FILTER (WHERE NOT coalesce(t.keyed, false)),
        array_agg(named.job_type) FILTER (WHERE t.keyed),
        array_agg(named.max_jobs) FILTER (WHERE t.keyed),
        array_agg(named.job_type) FILTER (WHERE t.ordered)
    INTO v_types, v_limits, v_flow_types, v_flow_limits, v_ordered_types
    FROM (
        SELECT n.job_type, min(n.max_jobs) AS max_jobs FROM unnest(p_job_types, p_limits) AS n (job_type, max_jobs)
        GROUP BY n.job_type
    ) AS named
    LEFT JOIN howdah.types AS t ON t.job_type = named.job_type
    WHERE t.paused_at IS NULL AND named.max_jobs IS DISTINCT FROM 0;

    IF v_flow_types IS NOT NULL THEN
        PERFORM set_config('jobqueue.held_from', '', true), set_config('jobqueue.has_waited', '', true);
        PERFORM howdah.settle_flow(v_flow_types);
        SELECT array_agg(ROW(
            h.job_type, h.priority, NULL, NULL, true, v_flow_limits[array_position(v_flow_types, h.job_type)]
        )::howdah.lane_head)
        INTO v_flow_lanes
        FROM (
            SELECT array_agg(turn.priority ORDER BY t.place) AS priorities, array_agg(
                nullif(howdah.flow_due_from(turn, turn.priority), '-infinity') ORDER BY t.place
            ) AS due_froms
            FROM unnest(v_flow_types) WITH ORDINALITY AS t (job_type, place)
            CROSS JOIN LATERAL jsonb_populate_record(
                NULL::howdah.flow_turn,
                nullif(current_setting('jobqueue.turns', true), '')::jsonb -> ('howdah.live'::regclass::oid || '/' || t.job_type)
            ) AS turn
        ) AS seen
        CROSS JOIN LATERAL howdah.flow_heads(v_flow_types, NULL, p_oldest, seen.priorities, seen.due_froms) AS h;
    END IF;
    IF p_oldest THEN
        v_found := howdah.claim_flow_lanes(
            v_flow_lanes, least(CASE WHEN v_types IS NULL THEN p_batch_size ELSE (p_batch_size + 1) / 2 END, v_flow_room), '{}', p_include_crashed
        );
        v_picked := v_found || howdah.claim_oldest(v_types, v_limits, p_batch_size - cardinality(v_found), p_include_crashed);
        v_flow_lanes := NULL;
    ELSE
        -- The short way of a single type, level by level. The general way costs several times as much for a single job.
        WHILE cardinality(v_types) = 1 AND v_flow_lanes IS NULL AND p_limits IS NULL AND p_cursor_types = '{}' AND v_levels < 4
            AND v_below IS NOT NULL AND cardinality(v_picked) < p_batch_size
        LOOP
            SELECT j.priority, j.run_at, j.id INTO v_below, v_run_at, v_id FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = v_types[1] AND j.priority < v_below
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT 1;
            v_levels := v_levels + 1;
            IF v_run_at <= howdah.clock() THEN
                v_wanted := p_batch_size - cardinality(v_picked);
                v_picked := v_picked || ARRAY(
                    SELECT j.id FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                        AND j.job_type = v_types[1] AND j.priority = v_below::int AND j.run_at <= howdah.clock()
                        AND (j.run_at, j.id) >= (v_run_at, v_id)
                        AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                        AND (p_include_crashed OR j.crashes = 0)
                    ORDER BY j.run_at, j.id
                    LIMIT v_wanted
                    FOR UPDATE SKIP LOCKED
                );
            END IF;
        END LOOP;
        IF v_below IS NOT NULL AND cardinality(v_picked) < p_batch_size THEN
            SELECT array_agg(ROW(
                h.job_type, h.priority, h.run_at, h.id, false,
                CASE WHEN p_limits IS NOT NULL THEN v_limits[array_position(v_types, h.job_type)] END
            )::howdah.lane_head)
            INTO v_heads
            FROM howdah.lane_heads(
                v_types, CASE WHEN v_levels > 0 THEN ARRAY[v_below] END,
                p_cursor_types, p_cursor_priorities, p_cursor_run_ats, p_cursor_ids
            ) AS h;
        END IF;
        v_heads := v_heads || v_flow_lanes;
    END IF;

    WHILE v_heads IS NOT NULL AND cardinality(v_picked) < p_batch_size LOOP
        v_wanted := p_batch_size - cardinality(v_picked);
        v_levels := v_levels + 1;
        -- Each priority has few jobs: the rest is read across priorities. Not with a cursor, which sets a start of its own, nor
        -- with limits, which decide job by job, or with flow keys.
        IF v_levels > 4 AND p_limits IS NULL AND NOT EXISTS (
            SELECT FROM unnest(v_heads) AS head WHERE head.keyed OR head.job_type = ANY (p_cursor_types)
        ) THEN
            v_picked := v_picked || howdah.claim_levels(v_heads, v_wanted, p_include_crashed);
            EXIT;
        END IF;
        SELECT
            array_agg(head) FILTER (WHERE NOT head.keyed), sum(coalesce(head.max_jobs, p_batch_size)) FILTER (WHERE NOT head.keyed),
            min(head.priority), array_agg(head) FILTER (WHERE head.keyed)
        INTO v_lanes, v_room, v_level, v_flow_lanes
        FROM unnest(v_heads) AS head
        WHERE head.priority = (SELECT max(best.priority) FROM unnest(v_heads) AS best);

        IF v_flow_lanes IS NOT NULL THEN
            -- Of a single job, each half of the level gets every second one.
            v_found := howdah.claim_flow_lanes(
                v_flow_lanes,
                least(CASE WHEN v_lanes IS NULL THEN v_wanted ELSE (v_wanted + (random() < 0.5)::int) / 2 END, v_flow_room - cardinality(v_picked)),
                v_picked, p_include_crashed
            );
            v_mixed := v_mixed OR v_found <> '{}';
            v_picked := v_picked || v_found;
            v_wanted := v_wanted - cardinality(v_found);
        END IF;
        IF v_lanes IS NULL THEN
            NULL;
        ELSIF cardinality(v_lanes) = 1 OR v_room <= v_wanted THEN
            v_mixed := v_mixed OR cardinality(v_lanes) > 1;
            FOR v_place IN 1 .. cardinality(v_lanes) LOOP
                v_lane := v_lanes[v_place];
                SELECT array_agg(taken.id) INTO v_found FROM (
                    SELECT j.id FROM howdah.live AS j
                    WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                        AND j.job_type = v_lane.job_type AND j.priority = v_level
                        AND j.run_at <= howdah.clock()
                        AND (j.run_at, j.id) >= (v_lane.run_at, v_lane.id)
                        AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                        AND (p_include_crashed OR j.crashes = 0)
                    ORDER BY j.run_at, j.id
                    LIMIT least(v_wanted, v_lane.max_jobs)
                    FOR UPDATE SKIP LOCKED
                ) AS taken;
                v_picked := v_picked || v_found;
                v_lanes[v_place].max_jobs := v_lane.max_jobs - coalesce(cardinality(v_found), 0);
            END LOOP;
        ELSE
            v_found := howdah.claim_level(v_lanes, v_wanted, p_include_crashed);
            v_picked := v_picked || v_found;
            IF p_limits IS NOT NULL AND cardinality(v_found) < v_wanted THEN
                SELECT array_agg(
                    ROW(l.job_type, l.priority, l.run_at, l.id, false, l.max_jobs - coalesce(f.jobs, 0))::howdah.lane_head
                )
                INTO v_lanes
                FROM unnest(v_lanes) AS l
                LEFT JOIN (
                    SELECT j.job_type, count(*) AS jobs FROM howdah.live AS j WHERE j.id = ANY (v_found) GROUP BY j.job_type
                ) AS f ON f.job_type = l.job_type;
            END IF;
        END IF;
        IF v_flow_lanes IS NOT NULL AND cardinality(v_picked) < p_batch_size THEN
            -- What the other half left.
            IF v_lanes IS NOT NULL THEN
                v_picked := v_picked || howdah.claim_flow_lanes(
                    v_flow_lanes, least(p_batch_size, v_flow_room) - cardinality(v_picked), v_picked, p_include_crashed
                );
            END IF;
            SELECT array_agg(ROW(
                h.job_type, h.priority, NULL, NULL, true, v_flow_limits[array_position(v_flow_types, h.job_type)]
            )::howdah.lane_head)
            INTO v_flow_lanes
            FROM (SELECT array_agg(lane.job_type) AS job_types, array_agg(lane.priority::bigint) AS below FROM unnest(v_flow_lanes) AS lane) AS done
            CROSS JOIN LATERAL howdah.flow_heads(done.job_types, done.below) AS h
            WHERE cardinality(v_picked) < v_flow_room;
        END IF;
        EXIT WHEN cardinality(v_picked) >= p_batch_size;

        SELECT array_agg(head) INTO v_heads FROM (
            SELECT head FROM unnest(v_flow_lanes) AS head
            UNION ALL
            SELECT head FROM unnest(v_heads) AS head WHERE head.priority < v_level AND (NOT head.keyed OR cardinality(v_picked) < v_flow_room)
            UNION ALL
            SELECT ROW(
                h.job_type, h.priority, h.run_at, h.id, false,
                CASE WHEN p_limits IS NOT NULL THEN done.limits[array_position(done.job_types, h.job_type)] END
            )::howdah.lane_head
            FROM (
                SELECT
                    array_agg(lane.job_type) AS job_types, array_agg(lane.priority::bigint) AS below,
                    array_agg(lane.max_jobs) AS limits
                FROM unnest(v_lanes) AS lane WHERE lane.max_jobs IS DISTINCT FROM 0
            ) AS done
            CROSS JOIN LATERAL howdah.lane_heads(
                done.job_types, done.below, p_cursor_types, p_cursor_priorities, p_cursor_run_ats, p_cursor_ids
            ) AS h
        ) AS remaining (head);
    END LOOP;

    -- Not <@, which compares each of thousands of types with each other one.
    IF cardinality(v_picked) > v_start AND ((v_start > 0 AND v_mixed) OR p_job_types <> p_prefetch_types) THEN
        -- The best ones start. Behind them, the first job that may not be prefetched ends the batch: if only that job were left
        -- out, worse ones would overtake it.
        WITH line AS (
            SELECT j.id, j.job_type, row_number() OVER (ORDER BY j.priority DESC, j.flow_key IS NULL, j.run_at, j.id) AS place
            FROM howdah.live AS j WHERE j.id = ANY (v_picked)
        ), cut AS (
            SELECT line.id, line.place FROM line
            WHERE line.place > v_start AND NOT line.job_type = ANY (p_prefetch_types) ORDER BY line.place LIMIT 1
        )
        SELECT
            coalesce(array_agg(line.id ORDER BY line.place) FILTER (WHERE cut.place IS NULL OR line.place < cut.place), '{}'),
            min(cut.id::text)::uuid
        INTO v_picked, v_too_slow
        FROM line LEFT JOIN cut ON true;
    END IF;

    IF v_flow_types IS NOT NULL AND nullif(current_setting('jobqueue.held_from', true), '')::bigint > v_token THEN
        v_token := howdah.next_token(current_setting('jobqueue.held_from', true)::bigint);
    END IF;
    FOREACH v_starts IN ARRAY ARRAY[true, false] LOOP
        v_found := CASE WHEN v_starts THEN v_picked[:v_start] ELSE v_picked[v_start + 1:] END;
        CONTINUE WHEN v_found = '{}';
        RETURN QUERY
        WITH changed AS (
            UPDATE howdah.live AS j SET
                status = CASE
                    -- A job that has crashed a worker waits for a process of its own.
                    WHEN j.crashes > 0 THEN 'claimed'
                    WHEN v_starts THEN 'running'
                    -- If its worker dies, it is not known whether the job had begun. It gets its attempt back, and an interruption,
                    -- but only once; and not on its last attempt, which may be the only one that is allowed.
                    WHEN p_start_ahead AND j.interruptions = 0 AND j.attempts + 1 < j.max_attempts THEN 'running'
                    ELSE 'claimed'
                END,
                worker_id = p_worker_id,
                claimed_at = howdah.clock(),
                started_at = CASE WHEN v_starts AND j.crashes = 0 THEN howdah.clock() END,
                deadline_at = CASE WHEN v_starts AND j.crashes = 0 THEN howdah.clock() + j.timeout END,
                lease = v_lease,
                lease_until = v_lease_until,
                attempts = j.attempts + 1,
                token = CASE WHEN j.token < v_token THEN v_token ELSE howdah.next_token(j.token) END,
                generation = v_generation,
                -- The progress of an earlier attempt does not apply to this one.
                progress = 0,
                current_stage = NULL,
                order_key = CASE WHEN j.job_type = ANY (v_ordered_types) THEN coalesce(j.flow_key, '') END,
                line = NULL,
                own_write = NOT j.own_write
            WHERE j.id = ANY (v_found)
            RETURNING j.*
        )
        SELECT * FROM changed AS c ORDER BY c.priority DESC, c.run_at, c.id;
    END LOOP;
    IF v_too_slow IS NOT NULL THEN
        RETURN QUERY SELECT j.* FROM howdah.live AS j WHERE j.id = v_too_slow;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.claim IS
    'Claims up to p_batch_size due jobs of the named types, best first; the first p_start of them are already running.'
    ' Cursors are optional: for a type and priority, the (run_at, id) up to which the caller has seen everything.'
    ' p_incarnation: refused with SQLSTATE JQ006 unless the worker is registered under it. p_limits: the highest number of jobs for each of'
    ' p_job_types, NULL for no limit. p_oldest: the jobs that have waited longest, whatever their priority.'
    ' A job with a flow key is claimed only within the limits of its key and type, and only among the first p_start, if that is given.'
    ' p_include_crashed: whether to include jobs that were running when a worker died.'
    ' p_prefetch_types: after the first p_start jobs, only jobs of these types; the first job of another type ends the batch, and is returned'
    ' last, still pending, to show that there is more. p_start_ahead: the jobs behind the first p_start are running too. They begin when'
    ' their worker has a free slot; until start notes that one has begun, its started_at is NULL.'
    ' p_lazily: the transaction is committed without waiting for the disk. If the server crashes within a second, the claim is undone, and the'
    ' job may run twice.';
REVOKE ALL ON FUNCTION howdah.claim FROM PUBLIC;
