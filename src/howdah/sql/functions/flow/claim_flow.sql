-- Keys in turn, not jobs: from the key after the last one that this session gave a job of, round the ring of all keys with a ready job. So a
-- key with a million jobs does not delay one with ten, and the cost depends on the keys that can give a job, not on the backlog.
-- Where the ring was left off is kept in a setting of the session. It is a hint: without it, the ring begins with the first key.
--
-- So is the time before which no job of this level was due any more when it was last looked for. While an old transaction is open, the indexes
-- keep the entries of jobs long gone, and this time lets a claim pass them without a look at each. Jobs that were due earlier all the same,
-- such as late commits and retries, are found by exact claims: every 200 ms, if these take a tenth of the time at most, and whenever
-- there is room left.
--
-- Keys that give nothing are passed in ever larger steps, and full ones without a lock (open_keys). A claim that finds nothing
-- for 200 ms ends, and the next one goes on from there: no number of keys that cannot give a job keeps another one from its turn.
CREATE OR REPLACE FUNCTION howdah.claim_flow(
    p_job_type varchar, p_priority int, p_wanted int, p_picked uuid[], p_include_crashed boolean
) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_found uuid[] := '{}';
    v_new uuid[];
    v_room int := howdah.flow_room(p_job_type, p_wanted, p_picked);
    v_left int := v_room;
    v_turns jsonb := coalesce(nullif(current_setting('jobqueue.turns', true), ''), '{}');
    v_ring text := 'howdah.live'::regclass::oid || '/' || p_job_type;
    v_turn howdah.flow_turn := jsonb_populate_record(NULL::howdah.flow_turn, v_turns -> v_ring);
    -- Behind a key comes the first text that is greater than it.
    v_start text := coalesce(v_turn.flow_key, '');
    v_due_from timestamptz := howdah.flow_due_from(v_turn, p_priority);
    v_began float8 := extract(epoch FROM clock_timestamp());
    v_from text;
    v_until text;
    v_keys text[];
    v_open text[];
    v_step int;
    v_found_at float8 := v_began;
    v_is_late boolean := false;
BEGIN
    IF v_room < 1 THEN
        RETURN v_found;
    END IF;
    -- Keys with jobs behind, whose rest is over.
    v_keys := ARRAY(
        SELECT k.flow_key FROM howdah.flow_keys AS k
        WHERE k.job_type = p_job_type AND k.rests_until <= howdah.clock()
        ORDER BY k.rests_until
        LIMIT least(v_room + 10, 100)
    );
    IF v_keys <> '{}' THEN
        v_found := howdah.claim_keys(p_job_type, p_priority, v_keys, v_left, p_picked, '{}', p_include_crashed);
        v_left := v_room - cardinality(v_found);
    END IF;
    FOR v_round IN 1 .. 16 LOOP
        v_from := v_start;
        v_until := NULL;
        v_new := '{}';
        v_step := v_left + 8;
        WHILE v_left > 0 LOOP
            v_is_late := extract(epoch FROM clock_timestamp()) - v_found_at > 0.2;
            EXIT WHEN v_is_late;
            WITH RECURSIVE walk AS (
                (
                    SELECT j.flow_key, 1 AS steps FROM howdah.live AS j
                    WHERE j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                        AND j.job_type = p_job_type AND j.priority = p_priority AND j.flow_key >= v_from AND j.first_due_at >= v_due_from
                        AND j.flow_key < v_until IS NOT FALSE
                    ORDER BY j.flow_key
                    LIMIT 1
                )
                UNION ALL
                SELECT step.flow_key, walk.steps + 1
                FROM walk
                CROSS JOIN LATERAL (
                    SELECT j.flow_key FROM howdah.live AS j
                    WHERE j.line = 'ready' AND j.status = 'pending' AND j.attempts < j.max_attempts
                        AND j.job_type = p_job_type AND j.priority = p_priority AND j.flow_key > walk.flow_key
                        AND j.first_due_at >= v_due_from
                    ORDER BY j.flow_key
                    LIMIT 1
                ) AS step
                WHERE walk.steps < least(v_step, 1000)
            )
            SELECT array_agg(walk.flow_key ORDER BY walk.steps) INTO v_keys FROM walk WHERE walk.flow_key < v_until IS NOT FALSE;
            IF v_keys IS NULL THEN
                -- Round the ring, once.
                EXIT WHEN v_until IS NOT NULL OR v_start = '';
                v_from := '';
                v_until := v_start;
                CONTINUE;
            END IF;
            v_open := v_keys;
            IF v_step > v_left + 8 THEN
                v_open := howdah.open_keys(p_job_type, v_keys);
                IF cardinality(v_open) > greatest(v_left + 8, v_step / 10) THEN
                    -- Not many more than a first step looks at: their rows are locked until the claim ends.
                    v_open := v_open[:greatest(v_left + 8, v_step / 10)];
                    v_keys := v_open;
                END IF;
            END IF;
            v_from := v_keys[cardinality(v_keys)] || chr(1);
            v_step := greatest(least(v_step * 4, 1000), v_step);
            CONTINUE WHEN v_open = '{}';
            v_new := v_new || howdah.claim_keys(
                p_job_type, p_priority, v_open, v_left, p_picked || v_found, v_found, p_include_crashed, v_due_from
            );
            IF v_left > v_room - cardinality(v_found) - cardinality(v_new) THEN
                v_left := v_room - cardinality(v_found) - cardinality(v_new);
                v_found_at := extract(epoch FROM clock_timestamp());
            END IF;
        END LOOP;
        v_found := v_found || v_new;
        EXIT WHEN v_is_late;
        -- Keys with more jobs than their share may give more.
        CONTINUE WHEN v_new <> '{}' AND v_left > 0 AND v_round % 8 <> 0;
        EXIT WHEN v_left <= 0 OR v_due_from = '-infinity';
        v_due_from := '-infinity';
    END LOOP;
    IF v_found <> '{}' THEN
        v_found := howdah.spend_tokens(p_job_type, v_found);
    END IF;
    IF v_found <> '{}' THEN
        -- A key of some weight gets that many turns of a single job.
        SELECT j.flow_key || CASE WHEN random() * coalesce(k.weight, 1) < 1 THEN chr(1) ELSE '' END INTO v_turn.flow_key
        FROM howdah.live AS j LEFT JOIN howdah.flow_keys AS k ON k.job_type = j.job_type AND k.flow_key = j.flow_key
        WHERE j.id = v_found[cardinality(v_found)];
    END IF;
    IF v_is_late THEN
        v_turn.flow_key := v_from;
    ELSIF v_due_from = '-infinity' THEN
        v_turn.looked_at := extract(epoch FROM clock_timestamp());
        v_turn.look_cost := v_turn.looked_at - v_began;
        SELECT least(CASE WHEN v_turn.priority = p_priority THEN v_turn.due_from END, min(j.run_at)) INTO v_turn.due_from
        FROM howdah.live AS j WHERE j.id = ANY (v_found);
    END IF;
    v_turn.priority := p_priority;
    v_turn.due_from := coalesce((
        SELECT j.run_at FROM howdah.live AS j
        WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = p_job_type AND j.priority = p_priority
            AND j.run_at >= v_turn.due_from
        ORDER BY j.run_at, j.id
        LIMIT 1
    ), v_turn.due_from);
    IF pg_column_size(v_turns) > 10000 THEN
        v_turns := '{}';
    END IF;
    PERFORM set_config('jobqueue.turns', (v_turns || jsonb_build_object(v_ring, to_jsonb(v_turn)))::text, false);
    RETURN v_found;
END
$$;
COMMENT ON FUNCTION howdah.claim_flow IS
    'Locks the next jobs of a type with flow keys, of one priority, in turn between its keys and within all limits. p_picked: jobs that this'
    ' claim has locked already. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_flow FROM PUBLIC;
