CREATE OR REPLACE FUNCTION howdah.take_counts_back(p_ids uuid[], p_workflow_ids uuid[], p_nodes int[], p_places int[], p_statuses varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_workflow uuid;
BEGIN
    -- Held until the end of the transaction: so the node does not end before the delta is there. See fold_workflow.
    PERFORM FROM howdah.workflow_nodes AS n
    WHERE (n.workflow_id, n.node) IN (SELECT m.workflow_id, m.node FROM unnest(p_workflow_ids, p_nodes) AS m (workflow_id, node))
    ORDER BY n.workflow_id, n.node FOR UPDATE;
    WITH member AS MATERIALIZED (
        SELECT m.*, n.state, n.inputs IS NOT NULL AS has_inputs
        FROM unnest(p_ids, p_workflow_ids, p_nodes, p_places, p_statuses) AS m (id, workflow_id, node, place, status)
        JOIN howdah.workflow_nodes AS n ON n.workflow_id = m.workflow_id AND n.node = m.node AND n.state <> 'ended'
        -- A node that runs again may have other jobs by now: those of an expansion before, or spawned by an attempt before, count in none.
        WHERE CASE
            WHEN m.place >= 0 THEN m.id >= n.first_id AND m.id < howdah.member_id(n.first_id, n.jobs)
            ELSE m.id < (
                SELECT howdah.member_id(s.first_id, s.jobs) FROM howdah.workflow_spawned AS s
                WHERE s.workflow_id = m.workflow_id AND s.node = m.node AND s.first_id <= m.id ORDER BY s.first_id DESC LIMIT 1
            )
        END
    ), changed AS (
        UPDATE howdah.live AS j SET
            node = m.node, place = m.place, inputs = nullif(m.has_inputs, false),
            run_at = CASE WHEN m.state = 'waiting' THEN 'infinity' ELSE j.run_at END,
            first_due_at = CASE WHEN m.state = 'waiting' THEN 'infinity' ELSE j.first_due_at END,
            line = howdah.line_of(j.flow_key, CASE WHEN m.state = 'waiting' THEN 'infinity' ELSE j.run_at END),
            own_write = NOT j.own_write
        FROM member AS m
        WHERE j.id = ANY (p_ids) AND j.id = m.id
    )
    INSERT INTO howdah.workflow_deltas (workflow_id, node, stripe, completed, failed, cancelled)
    SELECT
        m.workflow_id, m.node, howdah.stripe_of(m.place), -count(*) FILTER (WHERE m.status = 'completed'),
        -count(*) FILTER (WHERE m.status = 'failed'), -count(*) FILTER (WHERE m.status = 'cancelled')
    FROM member AS m
    GROUP BY 1, 2, 3;
END
$$;
COMMENT ON FUNCTION howdah.take_counts_back IS
    'Jobs of workflows run again, by retry: they count in their nodes again, if these have not ended and still have them. Otherwise they belong to none. Internal.';
REVOKE ALL ON FUNCTION howdah.take_counts_back FROM PUBLIC;
