CREATE OR REPLACE FUNCTION howdah.end_all_workflows(p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM howdah.workflow_deltas;
    UPDATE howdah.workflow_counts AS c SET cancelled = c.cancelled + c.remaining, remaining = 0
    WHERE c.remaining <> 0 AND c.workflow_id IN (SELECT w.id FROM howdah.workflows AS w WHERE w.finished_at IS NULL);
    UPDATE howdah.workflow_nodes AS n SET state = 'ended', outcome = coalesce(n.outcome, 'cancelled'), step = NULL, ended_at = howdah.clock()
    WHERE n.state <> 'ended';
    UPDATE howdah.workflows AS w SET status = 'cancelled', error = p_reason, finished_at = howdah.clock() WHERE w.finished_at IS NULL;
END
$$;
COMMENT ON FUNCTION howdah.end_all_workflows IS 'Ends all workflows, because their jobs were removed by TRUNCATE. Internal.';
REVOKE ALL ON FUNCTION howdah.end_all_workflows FROM PUBLIC;
