CREATE OR REPLACE FUNCTION howdah.check_unstarted(p_workflow_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM howdah.workflows AS w WHERE w.id = p_workflow_id) THEN
        RAISE EXCEPTION 'there is no workflow %', p_workflow_id USING ERRCODE = 'JQ024';
    ELSIF EXISTS (SELECT FROM howdah.workflows AS w WHERE w.id = p_workflow_id AND w.started_at IS NOT NULL) THEN
        RAISE EXCEPTION 'the workflow % has started: nodes are added before start_workflow', p_workflow_id USING
            ERRCODE = 'JQ005', HINT = 'A job that runs adds others with spawn.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_unstarted IS 'Refuses a workflow that does not exist (SQLSTATE JQ024), or that has started (JQ005). Internal.';
REVOKE ALL ON FUNCTION howdah.check_unstarted FROM PUBLIC;
