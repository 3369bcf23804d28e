CREATE OR REPLACE FUNCTION howdah.notify_advance(p_workflow_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    IF (
        EXISTS (SELECT FROM howdah.workflow_nodes AS n WHERE n.workflow_id = p_workflow_id AND n.step IS NOT NULL)
        OR EXISTS (SELECT FROM howdah.workflow_deltas AS d WHERE d.workflow_id = p_workflow_id)
    ) AND howdah.may_notify() THEN
        PERFORM pg_notify(howdah.channel(), 'advance');
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.notify_advance IS 'Notifies workers, once this transaction commits, if there is something left to do for a workflow. Internal.';
REVOKE ALL ON FUNCTION howdah.notify_advance FROM PUBLIC;
