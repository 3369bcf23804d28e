CREATE OR REPLACE FUNCTION howdah.spawn(
    p_id uuid,
    p_token bigint,
    p_job_type varchar,
    p_data jsonb[],
    p_options jsonb DEFAULT NULL,
    p_flow_keys text[] DEFAULT NULL
) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_job howdah.live;
    v_options howdah.node_options := jsonb_populate_record(NULL::howdah.node_options, coalesce(p_options, '{}'));
    v_first uuid := howdah.first_member_id();
    v_counts boolean;
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_node_options(p_options) WHERE p_options IS NOT NULL;
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(p_data, 'the data of a job');
    END IF;
    SELECT j.* INTO v_job FROM howdah.live AS j WHERE j.id = p_id AND j.token = p_token AND j.status IN ('claimed', 'running') FOR UPDATE;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    IF v_job.workflow_id IS NOT NULL AND EXISTS (
        -- A cancellation that is under way comes first.
        SELECT FROM howdah.workflows AS w WHERE w.id = v_job.workflow_id AND w.cancel_requested_at IS NOT NULL AND NOT EXISTS (
            SELECT FROM howdah.workflow_nodes AS n WHERE n.workflow_id = w.id AND n.node = v_job.node AND n.when_ = 'always'
        )
    ) THEN
        RETURN 0;
    END IF;
    v_counts := v_job.node IS NOT NULL;
    IF p_flow_keys IS NOT NULL THEN
        PERFORM howdah.check_keys(array_remove(p_flow_keys, NULL), 'flow key');
        PERFORM howdah.use_keys(ARRAY[p_job_type]);
    END IF;
    INSERT INTO howdah.live (
        id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, order_key, timeout, expires_at, retry_policy, meta,
        parent_id, workflow_id, flow_key, line, cost, node, place
    )
    SELECT
        howdah.member_id(v_first, item.no::int - 1), p_job_type, coalesce(item.data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(),
        job.max_attempts, CASE WHEN job.ordered THEN flow.key END, job.timeout, job.expires_at, job.retry_policy, v_options.meta,
        p_id, v_job.workflow_id, flow.key, howdah.line_of(flow.key, job.run_at), v_options.cost,
        v_job.node, CASE WHEN v_counts THEN -item.no END
    FROM howdah.with_type_defaults(
        p_job_type, v_options.priority, v_options.run_at, v_options.delay, v_options.max_attempts, v_options.timeout, v_options.expires_at,
        v_options.expires_in, v_options.retry_policy
    ) AS job
    CROSS JOIN unnest(p_data, p_flow_keys) WITH ORDINALITY AS item (data, flow_key, no)
    CROSS JOIN LATERAL (SELECT howdah.flow_key_of(job.keyed, job.per, item.data, coalesce(item.flow_key, v_options.flow_key)) AS key) AS flow;
    IF v_counts AND p_data <> '{}' THEN
        INSERT INTO howdah.workflow_spawned (workflow_id, node, first_id, jobs, parent_id)
        VALUES (v_job.workflow_id, v_job.node, v_first, cardinality(p_data), p_id);
        INSERT INTO howdah.workflow_deltas (workflow_id, node, stripe, added)
        SELECT v_job.workflow_id, v_job.node, howdah.stripe_of(-p.no), count(*) FROM generate_series(1, cardinality(p_data)) AS p (no) GROUP BY 3;
    END IF;
    PERFORM howdah.notify_workers(ARRAY[p_job_type]);
    RETURN cardinality(p_data);
END
$$;
COMMENT ON FUNCTION howdah.spawn IS
    'Adds jobs for a held job. Call it in the transaction that completes that job: a failed attempt adds nothing then, and a repeated one adds nothing twice.'
    ' In a workflow they count in the node of the job, so whatever waits for it waits for them, too; of a cancelled one, none are added (0). Returns how many; NULL if the claim is over.';
REVOKE ALL ON FUNCTION howdah.spawn FROM PUBLIC;
