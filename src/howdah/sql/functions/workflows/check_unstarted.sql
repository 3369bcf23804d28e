-- Whether a row is of this very transaction: its own rows are all that it sees of transactions in progress. Also in a savepoint, whose xmin is
-- another one. Of two transactions with the same 32 bits, the older one is over.
CREATE OR REPLACE FUNCTION howdah.check_unstarted(p_workflow_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_xmin bigint;
    v_next bigint := pg_snapshot_xmax(pg_current_snapshot())::text::bigint;
    v_started boolean;
    v_status text;
BEGIN
    SELECT w.xmin::text::bigint, w.started_at IS NOT NULL INTO v_xmin, v_started FROM howdah.workflows AS w WHERE w.id = p_workflow_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no workflow %', p_workflow_id USING ERRCODE = 'JQ024';
    ELSIF v_started THEN
        RAISE EXCEPTION 'the workflow % has started: nodes are added before start_workflow', p_workflow_id USING
            ERRCODE = 'JQ005', HINT = 'A job that runs adds others with spawn.';
    END IF;
    BEGIN
        v_status := pg_xact_status((v_next - v_next % 4294967296 + v_xmin)::text::xid8);
    EXCEPTION
        WHEN invalid_parameter_value THEN
            -- In the future: so it is of the epoch before.
            v_status := 'committed';
    END;
    IF v_status IS DISTINCT FROM 'in progress' THEN
        RAISE EXCEPTION 'the workflow % was committed before it was started', p_workflow_id USING
            ERRCODE = 'JQ005', HINT = 'Call enqueue_workflow, add_nodes, add_node_jobs and start_workflow in one transaction.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_unstarted IS
    'Refuses a workflow that does not exist (SQLSTATE JQ024), that has started, or that another transaction has added (JQ005): otherwise all producers that'
    ' know its id could add nodes to it. Internal.';
REVOKE ALL ON FUNCTION howdah.check_unstarted FROM PUBLIC;
