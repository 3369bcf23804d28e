-- First the keys are locked: from then on no other call adds a job of one of them. Then, in a statement of its own, which sees what was
-- committed before the lock, it is found out which of them have a job in the way.
--
-- Where a running job is not in the way, or a waiting one would be changed, waiting jobs are locked, too: none of them can be claimed
-- before this transaction ends, so that its handler sees what the transaction wrote. A job that is locked already is being claimed,
-- and counts as running.
CREATE OR REPLACE FUNCTION howdah.enqueue_unique(
    p_job_type varchar,
    p_data jsonb[],
    p_unique jsonb DEFAULT NULL,
    p_keys text[] DEFAULT NULL,
    p_priority int DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_at timestamptz DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_expires_in interval DEFAULT NULL,
    p_ids uuid[] DEFAULT NULL,
    p_alone boolean DEFAULT false,
    p_flow_keys text[] DEFAULT NULL,
    p_cost int DEFAULT NULL
) RETURNS TABLE (
    id uuid, created boolean, conflict text, priority int, run_at timestamptz, created_at timestamptz, max_attempts int,
    timeout interval, expires_at timestamptz, retry_policy jsonb
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plans must be = ANY and hash joins, whatever the statistics: a plan made for one job and an empty table must hold for many.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_nestloop = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_rule record;
    v_keys text[];
    v_ids uuid[] := coalesce(p_ids, ARRAY(SELECT howdah.new_id() FROM generate_series(1, cardinality(p_data))));
    v_delay interval;
    v_locks boolean;
    v_now timestamptz;
    v_known uuid[] := '{}';
    v_last uuid[] := '{}';
    -- For each item: the job that it is now, the job that was in the way, and what happened.
    v_answers uuid[];
    v_others uuid[];
    v_conflicts text[];
    v_created boolean[];
    v_place int;
    -- The jobs to replace that have steps.
    v_with_steps uuid[];
    v_missing uuid[];
    v_over int;
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, p_delay, p_timeout, p_retry_policy, p_expires_in);
    PERFORM howdah.check_meta(p_meta);
    PERFORM howdah.check_cost(p_cost);
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(p_data, 'the data of a job');
    END IF;
    IF p_flow_keys IS NOT NULL THEN
        PERFORM howdah.check_keys(array_remove(p_flow_keys, NULL), 'flow key');
        PERFORM howdah.use_keys(ARRAY[p_job_type]);
    END IF;
    SELECT r.* INTO v_rule FROM howdah.unique_rule(p_job_type, p_unique) AS r;
    v_delay := CASE WHEN p_run_at IS NULL THEN coalesce(p_delay, v_rule.delay) END;
    v_keys := howdah.unique_keys(p_data, p_keys, v_rule.basis, v_rule.hashed_by);
    IF coalesce(cardinality(p_data), 0) = 0 THEN
        RETURN;
    ELSIF p_ids IS NOT NULL THEN
        IF cardinality(p_ids) IS DISTINCT FROM cardinality(p_data) OR array_position(p_ids, NULL) IS NOT NULL THEN
            RAISE EXCEPTION 'each job needs an id: there are % ids for % jobs', cardinality(array_remove(p_ids, NULL)), cardinality(p_data)
                USING ERRCODE = 'JQ001', HINT = 'Pass one id for each element of p_data, or leave p_ids out.';
        ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
            RAISE EXCEPTION 'enqueueing with ids of your own needs a READ COMMITTED transaction' USING
                ERRCODE = 'JQ001',
                HINT = 'A stricter transaction cannot see a job of such an id that ended meanwhile. Leave p_ids out, and the database makes them.';
        END IF;
    END IF;
    IF cardinality(v_keys) > 1 THEN
        -- As in enqueue_many: waits for a bulk of several calls, whose keys are in no order.
        PERFORM howdah.lock_type_for_bulk(p_job_type, p_shared => true);
    END IF;
    PERFORM howdah.lock_uniques(array_fill(p_job_type, ARRAY[cardinality(v_keys)]), v_keys, v_ids, v_rule.span, v_rule.states);

    v_now := howdah.moving_clock();
    IF p_ids IS NOT NULL THEN
        -- A repeated call finds its job by its id.
        v_known := ARRAY(SELECT j.id FROM howdah.live AS j WHERE j.id = ANY (p_ids));
        IF howdah.has_ended(p_ids) IS NOT NULL THEN
            v_known := v_known || ARRAY(SELECT a.id FROM howdah.archive AS a WHERE a.id = ANY (p_ids));
        END IF;
    END IF;
    IF v_rule.states && ARRAY['completed', 'failed', 'cancelled']::varchar[] THEN
        v_last := ARRAY(SELECT u.job_id FROM howdah.uniques AS u WHERE u.job_type = p_job_type AND u.key = ANY (v_keys));
    END IF;
    v_locks := v_rule.conflict IN ('replace', 'reschedule') OR NOT v_rule.states @> ARRAY['claimed', 'running']::varchar[];
    WITH locked AS MATERIALIZED (
        SELECT
            j.id, j.has_steps,
            -- As in reschedule: a signal would not find a job that was claimed while it waits.
            v_rule.conflict <> 'reschedule' OR j.has_steps IS NULL OR NOT howdah.is_waiting(j.id, j.token) AS may_change
        FROM howdah.live AS j
        WHERE v_locks AND j.job_type = p_job_type AND j.unique_key = ANY (v_keys) AND j.unique_key IS NOT NULL AND j.status = 'pending'
        FOR UPDATE SKIP LOCKED
    ), earlier AS (
        SELECT
            j.unique_key AS key, j.id, j.created_at, coalesce(locked.may_change, false) AS may_change, locked.has_steps,
            CASE
                WHEN j.status <> 'pending' THEN j.status
                WHEN v_locks AND locked.id IS NULL THEN 'running'
                -- The next sweep cancels it.
                WHEN j.expires_at <= howdah.clock() THEN 'cancelled'
                ELSE 'pending'
            END AS status
        FROM howdah.live AS j LEFT JOIN locked ON locked.id = j.id
        WHERE j.job_type = p_job_type AND j.unique_key = ANY (v_keys) AND j.unique_key IS NOT NULL
        UNION ALL
        SELECT a.unique_key, a.id, a.created_at, false, NULL, a.status FROM howdah.archive AS a
        WHERE a.id = ANY (v_last) AND a.job_type = p_job_type
    ), other AS MATERIALIZED (
        -- If several are in the way: one that can be changed, the newest of them.
        SELECT DISTINCT ON (e.key) e.key, e.id, e.may_change, e.has_steps FROM earlier AS e
        WHERE e.status = ANY (v_rule.states)
            AND (v_rule.span IS NULL OR v_now - v_rule.span < coalesce((
                SELECT u.added_at FROM howdah.uniques AS u WHERE u.job_type = p_job_type AND u.key = e.key AND u.job_id = e.id
            ), e.created_at))
        ORDER BY e.key, e.may_change DESC, e.created_at DESC, e.id DESC
    ), item AS (
        SELECT
            i.place, i.id, i.is_known, CASE WHEN NOT i.is_known THEN other.id END AS other, other.may_change, other.has_steps,
            -- The first item of a key is added, and is in the way of the others.
            CASE
                WHEN other.id IS NULL AND NOT i.is_known AND 'pending' = ANY (v_rule.states)
                    AND row_number() OVER same > 1 THEN first_value(i.id) OVER same
            END AS twin
        FROM (
            SELECT i.key, i.id, i.place, i.id = ANY (v_known) AS is_known
            FROM unnest(v_keys, v_ids) WITH ORDINALITY AS i (key, id, place)
        ) AS i
        LEFT JOIN other ON other.key = i.key
        WINDOW same AS (PARTITION BY i.key, i.is_known ORDER BY i.place)
    )
    SELECT
        array_agg(coalesce(item.other, item.twin, item.id) ORDER BY item.place),
        array_agg(item.other ORDER BY item.place),
        array_agg(num_nonnulls(item.other, item.twin) = 0 AND NOT item.is_known ORDER BY item.place),
        array_agg(CASE
            WHEN num_nonnulls(item.other, item.twin) = 0 THEN NULL
            WHEN v_rule.conflict = 'replace' AND (item.may_change OR item.twin IS NOT NULL) THEN 'replaced'
            WHEN v_rule.conflict = 'reschedule' AND (item.may_change OR item.twin IS NOT NULL) THEN 'rescheduled'
            ELSE 'kept'
        END ORDER BY item.place),
        array_agg(item.other) FILTER (WHERE item.has_steps AND v_rule.conflict = 'replace')
    INTO v_answers, v_others, v_created, v_conflicts, v_with_steps FROM item;

    IF v_rule.conflict = 'raise' THEN
        v_place := array_position(v_conflicts, 'kept');
        IF v_others[v_place] IS NOT NULL THEN
            RAISE EXCEPTION 'there is a job of type % with the same unique key', p_job_type USING
                ERRCODE = 'JQ020', DETAIL = v_others[v_place]::text,
                HINT = 'Nothing was added. To get that job instead of an error, use the conflict "keep".';
        ELSIF v_place IS NOT NULL THEN
            RAISE EXCEPTION 'items % and % of a bulk of type % have the same unique key',
                array_position(v_ids, v_answers[v_place]) - 1, v_place - 1, p_job_type USING
                ERRCODE = 'JQ020', HINT = 'Nothing was added. To add one job for them, use the conflict "keep".';
        END IF;
    END IF;

    SELECT howdah.make_room(p_job_type, cardinality(array_positions(v_created, true)), p_except => v_answers) INTO v_over FROM howdah.types AS t
    WHERE t.job_type = p_job_type AND coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL;
    INSERT INTO howdah.live (
        id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, order_key, timeout, expires_at,
        retry_policy, meta, unique_key, flow_key, line, cost
    )
    SELECT
        item.id, p_job_type, coalesce(item.data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(), job.max_attempts,
        CASE WHEN job.ordered THEN flow.key END, job.timeout, job.expires_at, job.retry_policy, p_meta, item.key, flow.key,
        howdah.line_of(flow.key, job.run_at), p_cost
    FROM howdah.with_type_defaults(
        p_job_type, p_priority, p_run_at, v_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
    ) AS job
    CROSS JOIN (
        SELECT
            i.id, i.key, i.flow_key, i.place, i.is_created,
            -- Of items that replace one another, the last one counts.
            CASE WHEN v_rule.conflict = 'replace' THEN first_value(i.data) OVER (PARTITION BY i.id ORDER BY i.place DESC) ELSE i.data END AS data
        FROM unnest(v_answers, v_keys, p_data, p_flow_keys, v_created) WITH ORDINALITY AS i (id, key, data, flow_key, is_created, place)
    ) AS item
    CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, item.data, item.flow_key) AS key) AS flow
    WHERE item.is_created
    ORDER BY item.place;
    UPDATE howdah.uniques AS u SET job_id = item.id, added_at = v_now
    FROM (
        SELECT DISTINCT ON (i.key) i.key, i.id
        FROM unnest(v_keys, v_ids, v_created) WITH ORDINALITY AS i (key, id, is_created, place)
        WHERE i.is_created ORDER BY i.key, i.place DESC
    ) AS item
    WHERE u.job_type = p_job_type AND u.key = ANY (v_keys) AND u.key = item.key
        -- Its row may have been added before another transaction was waited for.
        AND (u.job_id <> item.id OR u.added_at < v_now - interval '100 milliseconds');

    IF v_rule.conflict = 'replace' THEN
        -- It is a new job under the old id: with all its attempts, and without the checkpoint, the steps and the progress of other data. It
        -- does not wait any more, and its token is a new one. If the call names no time, it keeps its place in the queue.
        IF v_with_steps IS NOT NULL THEN
            PERFORM howdah.remove_steps(v_with_steps);
        END IF;
        UPDATE howdah.live AS j SET
            data = coalesce(item.data, '{}'),
            priority = job.priority,
            run_at = CASE WHEN num_nonnulls(p_run_at, v_delay) > 0 THEN job.run_at ELSE least(j.run_at, job.run_at) END,
            first_due_at = CASE WHEN num_nonnulls(p_run_at, v_delay) > 0 THEN job.run_at ELSE least(j.first_due_at, job.run_at) END,
            max_attempts = job.max_attempts, timeout = job.timeout, expires_at = job.expires_at, retry_policy = job.retry_policy,
            flow_key = flow.key, order_key = CASE WHEN job.ordered THEN flow.key END,
            line = howdah.line_of(flow.key, CASE WHEN num_nonnulls(p_run_at, v_delay) > 0 THEN job.run_at ELSE howdah.clock() END),
            meta = p_meta, cost = p_cost, attempts = 0, crashes = 0, interruptions = 0, progress = 0, current_stage = NULL, checkpoint = NULL,
            token = howdah.next_token(j.token), has_steps = NULL,
            progress_report = CASE WHEN j.progress_report IS NOT NULL THEN jsonb_build_object('seq', howdah.seq_of(j.progress_report)) END,
            own_write = NOT j.own_write
        FROM (
            SELECT DISTINCT ON (i.id) i.id, i.data, i.flow_key
            FROM unnest(v_others, v_conflicts, p_data, p_flow_keys) WITH ORDINALITY AS i (id, conflict, data, flow_key, place)
            WHERE i.conflict = 'replaced' ORDER BY i.id, i.place DESC
        ) AS item
        CROSS JOIN howdah.with_type_defaults(
            p_job_type, p_priority, p_run_at, v_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
        ) AS job
        CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, item.data, item.flow_key) AS key) AS flow
        WHERE j.id = ANY (v_others) AND j.id = item.id;
    ELSIF v_rule.conflict = 'reschedule' THEN
        UPDATE howdah.live AS j SET run_at = due.at, first_due_at = due.at, line = howdah.line_of(j.flow_key, due.at), own_write = NOT j.own_write
        FROM (SELECT coalesce(p_run_at, howdah.clock() + v_delay, howdah.clock()) AS at) AS due
        WHERE j.id = ANY (v_others) AND j.id IN (
            SELECT i.id FROM unnest(v_others, v_conflicts) AS i (id, conflict) WHERE i.conflict = 'rescheduled'
        )
            -- It may have begun to wait just before it was locked.
            AND (j.has_steps IS NULL OR NOT howdah.is_waiting(j.id, j.token));
    END IF;
    IF (true = ANY (v_created) OR v_conflicts && ARRAY['replaced', 'rescheduled'])
        AND coalesce(p_run_at, howdah.clock() + v_delay, howdah.clock()) <= howdah.clock() + interval '2 seconds'
    THEN
        PERFORM howdah.notify_workers(ARRAY[p_job_type], p_alone);
    END IF;

    IF v_over > 0 THEN
        PERFORM howdah.drop_oldest(p_job_type, v_over);
    END IF;
    v_missing := ARRAY(
        SELECT i.id FROM unnest(v_answers) AS i (id) LEFT JOIN howdah.live AS j ON j.id = i.id AND j.id = ANY (v_answers)
        WHERE j.id IS NULL
    );
    RETURN QUERY
    SELECT
        item.id, item.created, item.conflict, d.priority, d.run_at, d.created_at, d.max_attempts, d.timeout, d.expires_at, d.retry_policy
    FROM unnest(v_answers, v_created, v_conflicts) WITH ORDINALITY AS item (id, created, conflict, place)
    LEFT JOIN (
        SELECT j.id, j.priority, j.run_at, j.created_at, j.max_attempts, j.timeout, j.expires_at, j.retry_policy
        FROM howdah.live AS j WHERE j.id = ANY (v_answers)
        UNION ALL
        SELECT a.id, a.priority, a.run_at, a.created_at, a.max_attempts, a.timeout, a.expires_at, a.retry_policy
        FROM howdah.archive AS a WHERE a.id = ANY (v_missing)
    ) AS d ON d.id = item.id
    ORDER BY item.place;
END
$$;
COMMENT ON FUNCTION howdah.enqueue_unique IS
    'Adds a job for each element of p_data, unless there is one with the same unique key already. Returns a row for each, in their order: created,'
    ' and what happened to the other job (conflict: kept, replaced or rescheduled; NULL if there was none). p_unique is a rule such as'
    ' {"by": ["invoice"], "within": 3600, "states": ["pending", "completed"], "conflict": "keep"}; that of the type if not given. p_keys: the keys'
    ' for {"by": "key"}. The conflict "raise" raises SQLSTATE JQ020, with the id of the other job as its detail. JQ021: another'
    ' transaction holds a key. JQ022: there is no room for all of them. p_ids, p_alone, p_flow_keys and p_cost are as in enqueue.';
REVOKE ALL ON FUNCTION howdah.enqueue_unique FROM PUBLIC;
