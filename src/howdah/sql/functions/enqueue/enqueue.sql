CREATE OR REPLACE FUNCTION howdah.enqueue(
    p_job_type varchar,
    p_data jsonb DEFAULT '{}',
    p_priority int DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_key text DEFAULT NULL,
    p_id uuid DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_at timestamptz DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_parent_id uuid DEFAULT NULL,
    p_workflow_id uuid DEFAULT NULL,
    p_expires_in interval DEFAULT NULL,
    p_alone boolean DEFAULT false,
    p_flow_key text DEFAULT NULL,
    p_cost int DEFAULT NULL,
    p_bounded boolean DEFAULT true
) RETURNS TABLE (
    id uuid, created boolean, priority int, run_at timestamptz, created_at timestamptz, max_attempts int,
    timeout interval, expires_at timestamptz, retry_policy jsonb
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Rows must be found by id, whatever the statistics: a plan made for an empty segment must hold for a full one.
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_new_id uuid := coalesce(p_id, howdah.new_id());
    -- Only an id that was made here is certain to be new. A caller cannot vouch for its own id: a new job could then hide an ended
    -- one.
    v_is_new boolean := p_id IS NULL;
    v_id uuid;
BEGIN
    -- Every enqueue comes here, and most calls of these checks would find nothing. They are repeated inline, to save the calls.
    IF p_job_type IS NULL OR p_job_type = '' OR length(p_job_type) > 50 OR p_job_type ~ '[[:cntrl:]]' THEN
        PERFORM howdah.check_job_type(p_job_type);
    END IF;
    IF num_nonnulls(p_max_attempts, p_delay, p_timeout, p_retry_policy, p_expires_in) > 0 THEN
        PERFORM howdah.check_options(p_max_attempts, p_delay, p_timeout, p_retry_policy, p_expires_in);
    END IF;
    IF p_key IS NOT NULL THEN
        PERFORM howdah.check_keys(ARRAY[p_key]);
    END IF;
    IF p_flow_key IS NOT NULL THEN
        PERFORM howdah.check_keys(ARRAY[p_flow_key], 'flow key');
        PERFORM howdah.use_keys(ARRAY[p_job_type]);
    END IF;
    IF p_cost IS NOT NULL THEN
        PERFORM howdah.check_cost(p_cost);
    END IF;
    IF p_meta IS NOT NULL THEN
        PERFORM howdah.check_meta(p_meta);
    END IF;
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(ARRAY[p_data], 'data');
    END IF;
    IF p_id IS NOT NULL AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'enqueueing with an id of your own needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001',
            HINT = 'A stricter transaction cannot see a job of this id that ended meanwhile. Leave p_id out, and the database makes one.';
    END IF;
    LOOP
        IF p_key IS NULL AND v_is_new THEN
            -- No conflict is possible here, and ON CONFLICT would cost WAL.
            INSERT INTO howdah.live AS j (
                id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key, order_key,
                timeout, expires_at, retry_policy, meta, parent_id, workflow_id, flow_key, line, cost
            )
            SELECT
                v_new_id, p_job_type, coalesce(p_data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(),
                job.max_attempts, p_key, CASE WHEN job.ordered THEN flow.key END, job.timeout, job.expires_at, job.retry_policy,
                p_meta, p_parent_id, p_workflow_id, flow.key, howdah.line_of(flow.key, job.run_at), p_cost
            FROM howdah.with_type_defaults(
                p_job_type, p_priority, p_run_at, p_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
            ) AS job
            CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, p_data, p_flow_key) AS key) AS flow
            -- Makes room, or raises an error. A type without a bound pays nothing for it.
            WHERE CASE WHEN job.bounded AND p_bounded THEN howdah.make_room(p_job_type, 1, p_id, ARRAY[p_key]) = 0 ELSE true END
            RETURNING
                j.id, true, j.priority, j.run_at, j.created_at, j.max_attempts, j.timeout, j.expires_at, j.retry_policy
            INTO id, created, priority, run_at, created_at, max_attempts, timeout, expires_at, retry_policy;
        ELSE
            INSERT INTO howdah.live AS j (
                id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key, order_key,
                timeout, expires_at, retry_policy, meta, parent_id, workflow_id, flow_key, line, cost
            )
            SELECT
                v_new_id, p_job_type, coalesce(p_data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(),
                job.max_attempts, p_key, CASE WHEN job.ordered THEN flow.key END, job.timeout, job.expires_at, job.retry_policy,
                p_meta, p_parent_id, p_workflow_id, flow.key, howdah.line_of(flow.key, job.run_at), p_cost
            FROM howdah.with_type_defaults(
                p_job_type, p_priority, p_run_at, p_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
            ) AS job
            CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, p_data, p_flow_key) AS key) AS flow
            -- Makes room, or raises an error. A type without a bound pays nothing for it.
            WHERE CASE WHEN job.bounded AND p_bounded THEN howdah.make_room(p_job_type, 1, p_id, ARRAY[p_key]) = 0 ELSE true END
            ON CONFLICT DO NOTHING
            RETURNING
                j.id, true, j.priority, j.run_at, j.created_at, j.max_attempts, j.timeout, j.expires_at, j.retry_policy
            INTO id, created, priority, run_at, created_at, max_attempts, timeout, expires_at, retry_policy;
        END IF;

        -- A repeated call must find its job among the ended ones too. The check comes after the INSERT, because the INSERT may have
        -- waited for the very transaction that ended the job. It repeats has_ended inline, to save a call in the usual case.
        IF FOUND AND (v_is_new OR NOT (
            EXISTS (SELECT FROM howdah.archive_open AS a WHERE a.id = p_id)
            OR EXISTS (SELECT FROM howdah.segments AS s WHERE p_id BETWEEN s.first_id AND s.last_id)
                AND howdah.has_ended(ARRAY[p_id]) IS NOT NULL
        )) THEN
            -- Idle workers wait for later jobs by themselves: they look up what is due next.
            IF run_at <= howdah.clock() + interval '2 seconds' AND howdah.has_sleeper(p_job_type) THEN
                PERFORM howdah.notify_workers(ARRAY[p_job_type], p_alone);
            END IF;
            RETURN NEXT;
            RETURN;
        ELSIF FOUND THEN
            DELETE FROM howdah.live AS j WHERE j.id = p_id;
            v_id := p_id;
        ELSE
            v_id := coalesce(
                (SELECT j.id FROM howdah.live AS j WHERE j.id = p_id),
                (SELECT j.id FROM howdah.live AS j WHERE j.job_type = p_job_type AND j.key = p_key)
            );
        END IF;
        -- NULL means that the conflicting job ended meanwhile: the next INSERT decides.
        EXIT WHEN v_id IS NOT NULL;
    END LOOP;

    RETURN QUERY
    SELECT d.id, false, d.priority, d.run_at, d.created_at, d.max_attempts, d.timeout, d.expires_at, d.retry_policy
    FROM howdah.job_details AS d WHERE d.id = v_id;
END
$$;
COMMENT ON FUNCTION howdah.enqueue IS
    'Adds a job. If there is a live job of the same type and key, or a job of the same id, returns that instead, with created = false.'
    ' p_alone promises that this call is a transaction by itself; this saves a notification while another one is on its way.'
    ' SQLSTATE JQ022: as many jobs of the type wait as may. p_bounded => false adds it even so.';
REVOKE ALL ON FUNCTION howdah.enqueue FROM PUBLIC;
