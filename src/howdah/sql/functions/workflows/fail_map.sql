CREATE OR REPLACE FUNCTION howdah.fail_map(p_workflow_id uuid, p_node int, p_error text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '500ms'
SET enable_seqscan = off
AS $$
BEGIN
    PERFORM FROM howdah.workflow_nodes AS n
    WHERE n.workflow_id = p_workflow_id AND n.node = p_node AND n.step = 'expand' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE howdah.workflow_nodes AS n SET error = left(p_error, 1000), step = NULL, expanded_to = n.jobs
    WHERE n.workflow_id = p_workflow_id AND n.node = p_node;
    PERFORM howdah.end_nodes(p_workflow_id, ARRAY[p_node]);
    PERFORM howdah.try_advance(p_workflow_id, 100);
    PERFORM howdah.notify_advance(p_workflow_id);
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.fail_map IS 'Ends a map that cannot be expanded: it has failed, once the jobs that it has have ended.'
    ' False: there is nothing to expand any more, or another transaction has it locked.';
REVOKE ALL ON FUNCTION howdah.fail_map FROM PUBLIC;
