CREATE OR REPLACE FUNCTION howdah.enqueue_many(
    p_job_type varchar,
    p_data jsonb[],
    p_keys text[] DEFAULT NULL,
    p_priority int DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_at timestamptz DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_return_ids boolean DEFAULT false,
    p_expires_in interval DEFAULT NULL,
    p_flow_keys text[] DEFAULT NULL,
    p_cost int DEFAULT NULL
) RETURNS TABLE (enqueued bigint, ids uuid[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    -- Ids count up from a first one: to generate each would cost about as much as adding the job. Bit 39 is cleared, so that
    -- counting never carries into the bits before it, which make the ids of different calls distinct and ordered.
    v_first text := replace(howdah.new_id()::text, '-', '');
    v_high text := left(v_first, 16);
    v_low bigint := ('x' || right(v_first, 16))::bit(64)::bigint & ~(1::bigint << 39);
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
    SELECT howdah.make_room(p_job_type, cardinality(p_data), p_keys => p_keys) INTO v_over FROM howdah.types AS t
    WHERE t.job_type = p_job_type AND coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL;
    IF p_keys IS NULL THEN
        WITH added AS (
            INSERT INTO howdah.live (
                id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, order_key, timeout,
                expires_at, retry_policy, meta, flow_key, line, cost
            )
            SELECT
                (v_high || to_hex(v_low + item.place))::uuid, p_job_type, coalesce(item.data, '{}'), job.priority,
                job.run_at, job.run_at, howdah.clock(), job.max_attempts, CASE WHEN job.ordered THEN flow.key END, job.timeout,
                job.expires_at, job.retry_policy, p_meta, flow.key, howdah.line_of(flow.key, job.run_at), p_cost
            FROM howdah.with_type_defaults(
                p_job_type, p_priority, p_run_at, p_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
            ) AS job
            CROSS JOIN unnest(p_data, p_flow_keys) WITH ORDINALITY AS item (data, flow_key, place)
            CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, item.data, item.flow_key) AS key) AS flow
            RETURNING id
        )
        SELECT count(*), array_agg(added.id ORDER BY added.id) FILTER (WHERE p_return_ids) INTO enqueued, ids FROM added;
    ELSE
        PERFORM howdah.check_keys(p_keys);
        -- Wait for a bulk of several calls, whose keys are in no order. A call with one key holds no other while it waits for it.
        IF cardinality(p_keys) > 1 THEN
            PERFORM howdah.lock_type_for_bulk(p_job_type, p_shared => true);
        END IF;
        WITH added AS (
            INSERT INTO howdah.live (
                id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key, order_key, timeout,
                expires_at, retry_policy, meta, flow_key, line, cost
            )
            SELECT
                (v_high || to_hex(v_low + item.place))::uuid, p_job_type, coalesce(item.data, '{}'), job.priority,
                job.run_at, job.run_at, howdah.clock(), job.max_attempts, item.key, CASE WHEN job.ordered THEN flow.key END, job.timeout,
                job.expires_at, job.retry_policy, p_meta, flow.key, howdah.line_of(flow.key, job.run_at), p_cost
            FROM howdah.with_type_defaults(
                p_job_type, p_priority, p_run_at, p_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
            ) AS job
            CROSS JOIN unnest(p_data, p_keys, p_flow_keys) WITH ORDINALITY AS item (data, key, flow_key, place)
            CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, item.data, item.flow_key) AS key) AS flow
            -- By key, because two bulks that insert the same keys in different orders would deadlock.
            ORDER BY item.key, item.place
            ON CONFLICT DO NOTHING
            RETURNING id
        )
        SELECT count(*), array_agg(added.id ORDER BY added.id) FILTER (WHERE p_return_ids) INTO enqueued, ids FROM added;
    END IF;
    IF v_over > 0 THEN
        PERFORM howdah.drop_oldest(p_job_type, v_over);
    END IF;
    IF enqueued > 0 AND coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock()) <= howdah.clock() + interval '2 seconds' THEN
        PERFORM howdah.notify_workers(ARRAY[p_job_type]);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.enqueue_many IS
    'Adds a job for each element of p_data, to be claimed in that order. Leaves out an element whose key a live job of the type already'
    ' has. enqueued counts the added jobs; ids lists them, if p_return_ids is set. SQLSTATE JQ022: there is no room for all of them.';
REVOKE ALL ON FUNCTION howdah.enqueue_many FROM PUBLIC;
