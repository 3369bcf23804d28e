-- For callers that add jobs at the same moment: one statement and one commit for all of them. It adds every job or none, except that it
-- leaves out jobs for which their type has no room. A caller whose job was not added sends it again, by enqueue under the same id; so this
-- function has no answer for a job that is there already, only an error.
CREATE OR REPLACE FUNCTION howdah.enqueue_each(
    p_job_types varchar[],
    p_data jsonb[],
    p_ids uuid[],
    p_priorities int[] DEFAULT NULL,
    p_run_ats timestamptz[] DEFAULT NULL,
    p_delays interval[] DEFAULT NULL,
    p_max_attempts int[] DEFAULT NULL,
    p_timeouts interval[] DEFAULT NULL,
    p_expires_ats timestamptz[] DEFAULT NULL,
    p_expires_ins interval[] DEFAULT NULL,
    p_retry_policies jsonb[] DEFAULT NULL,
    p_metas jsonb[] DEFAULT NULL,
    p_alone boolean DEFAULT false,
    p_flow_keys text[] DEFAULT NULL,
    p_costs int[] DEFAULT NULL
) RETURNS TABLE (
    ids uuid[], priority int, run_at timestamptz, created_at timestamptz, max_attempts int, timeout interval,
    expires_at timestamptz, retry_policy jsonb
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Rows must be found by id, whatever the statistics: a plan made for an empty segment must hold for a full one.
SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_types varchar[] := ARRAY(SELECT DISTINCT named.job_type FROM unnest(p_job_types) AS named (job_type));
    v_ended uuid;
    v_left_out uuid[] := '{}';
BEGIN
    IF (cardinality(p_ids) = ALL (ARRAY[cardinality(p_job_types), cardinality(p_data)])) IS NOT TRUE
        OR array_position(p_ids, NULL) IS NOT NULL
    THEN
        RAISE EXCEPTION 'each job needs a type, data and an id: there are % types, % values of data and % ids',
            cardinality(p_job_types), cardinality(p_data), cardinality(array_remove(p_ids, NULL)) USING ERRCODE = 'JQ001';
    END IF;
    PERFORM howdah.check_job_type(named.job_type) FROM unnest(v_types) AS named (job_type);
    IF num_nonnulls(p_max_attempts, p_delays, p_timeouts, p_retry_policies, p_expires_ins) > 0 THEN
        PERFORM howdah.check_options(item.max_attempts, item.delay, item.timeout, item.retry_policy, item.expires_in)
        FROM unnest(p_max_attempts, p_delays, p_timeouts, p_retry_policies, p_expires_ins)
            AS item (max_attempts, delay, timeout, retry_policy, expires_in);
    END IF;
    IF p_flow_keys IS NOT NULL THEN
        PERFORM howdah.check_keys(array_remove(p_flow_keys, NULL), 'flow key');
        PERFORM howdah.use_keys(v_types);
    END IF;
    IF p_costs IS NOT NULL THEN
        PERFORM howdah.check_cost(item.cost) FROM unnest(p_costs) AS item (cost);
    END IF;
    IF p_metas IS NOT NULL THEN
        PERFORM howdah.check_meta(item.meta) FROM unnest(p_metas) AS item (meta);
    END IF;
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(p_data, 'the data of a job');
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'enqueueing with ids of your own needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001',
            HINT = 'A stricter transaction cannot see a job of such an id that ended meanwhile. Call enqueue without p_id.';
    END IF;
    IF EXISTS (
        SELECT FROM howdah.types AS t WHERE t.job_type = ANY (v_types) AND coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL
    ) THEN
        v_left_out := ARRAY(
            WITH room AS MATERIALIZED (
                SELECT i.job_type, howdah.make_room(i.job_type, count(*)::int, p_partly => true) AS over
                FROM unnest(p_job_types) AS i (job_type) GROUP BY i.job_type
            )
            SELECT item.id
            FROM (
                SELECT i.id, i.job_type, row_number() OVER (PARTITION BY i.job_type ORDER BY i.place DESC) AS place_from_end
                FROM unnest(p_ids, p_job_types) WITH ORDINALITY AS i (id, job_type, place)
            ) AS item
            JOIN room ON room.job_type = item.job_type AND item.place_from_end <= room.over
        );
    END IF;
    RETURN QUERY
    WITH added AS (
        INSERT INTO howdah.live AS j (
            id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, order_key, timeout,
            expires_at, retry_policy, meta, flow_key, line, cost
        )
        SELECT
            item.id, item.job_type, coalesce(item.data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(),
            job.max_attempts, CASE WHEN job.ordered THEN flow.key END, job.timeout, job.expires_at, job.retry_policy, item.meta, flow.key,
            howdah.line_of(flow.key, job.run_at), item.cost
        FROM unnest(
            p_job_types, p_data, p_ids, p_priorities, p_run_ats, p_delays, p_max_attempts, p_timeouts, p_expires_ats, p_expires_ins,
            p_retry_policies, p_metas, p_flow_keys, p_costs
        ) AS item (
            job_type, data, id, priority, run_at, delay, max_attempts, timeout, expires_at, expires_in, retry_policy, meta, flow_key, cost
        )
        CROSS JOIN LATERAL howdah.with_type_defaults(
            item.job_type, item.priority, item.run_at, item.delay, item.max_attempts, item.timeout, item.expires_at,
            item.expires_in, item.retry_policy
        ) AS job
        CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, item.data, item.flow_key) AS key) AS flow
        WHERE item.id <> ALL (v_left_out)
        -- By id, because two calls that insert the same ids in different orders would deadlock.
        ORDER BY item.id
        RETURNING j.id, j.priority, j.run_at, j.created_at, j.max_attempts, j.timeout, j.expires_at, j.retry_policy
    )
    -- Most jobs of one moment have the same options: then the answer is one row.
    SELECT array_agg(a.id), a.priority, a.run_at, a.created_at, a.max_attempts, a.timeout, a.expires_at, a.retry_policy
    FROM added AS a
    GROUP BY a.priority, a.run_at, a.created_at, a.max_attempts, a.timeout, a.expires_at, a.retry_policy;
    -- After the INSERT, which may have waited for the very transaction that ended such a job.
    v_ended := howdah.has_ended(p_ids);
    IF v_ended IS NOT NULL THEN
        RAISE EXCEPTION 'there is a job of the id % already, and it has ended', v_ended USING
            ERRCODE = 'unique_violation', HINT = 'enqueue returns the job of an id that exists.';
    END IF;
    -- Idle workers wait for later jobs by themselves: they look up what is due next.
    IF p_run_ats IS NOT NULL OR p_delays IS NOT NULL THEN
        v_types := ARRAY(
            SELECT DISTINCT item.job_type FROM unnest(p_job_types, p_run_ats, p_delays) AS item (job_type, run_at, delay)
            WHERE coalesce(item.run_at, howdah.clock() + item.delay, howdah.clock()) <= howdah.clock() + interval '2 seconds'
        );
    END IF;
    PERFORM howdah.notify_workers(v_types, p_alone);
END
$$;
COMMENT ON FUNCTION howdah.enqueue_each IS
    'Adds a job for each id, each with options of its own: all of them or none, but for those of types that have no room for them. An id that a job already has is an error (SQLSTATE 23505).'
    ' Returns the options that the jobs got, one row for all ids that share them. p_alone is that of enqueue.';
REVOKE ALL ON FUNCTION howdah.enqueue_each FROM PUBLIC;
