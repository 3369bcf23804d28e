CREATE OR REPLACE FUNCTION howdah.try_advance(p_workflow_id uuid, p_limit int) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM howdah.advance_workflow(p_workflow_id, p_limit);
EXCEPTION
    WHEN lock_not_available OR deadlock_detected THEN
        -- As in advance_workflows, which does it when the lock is free.
        NULL;
    WHEN others THEN
        IF howdah.is_passing(SQLSTATE) THEN
            RAISE;
        END IF;
        RAISE WARNING 'workflow % could not be advanced: %', p_workflow_id, SQLERRM;
END
$$;
COMMENT ON FUNCTION howdah.try_advance IS
    'As advance_workflow, for a caller whose own change stays, whatever is wrong with a node, or locked: advance_workflows looks at it again. Internal.';
REVOKE ALL ON FUNCTION howdah.try_advance FROM PUBLIC;
