CREATE OR REPLACE FUNCTION howdah.note_workflow(p_workflow howdah.workflows) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
BEGIN
    -- Its row is locked, so the numbers are in the order of commits.
    INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
    SELECT
        howdah.clock(), p_workflow.id, 0, coalesce((SELECT max(e.seq) FROM howdah.events AS e WHERE e.job_id = p_workflow.id), 0) + 1, 0,
        left(p_workflow.name, 50), 'status', p_workflow.status, jsonb_strip_nulls(jsonb_build_object('cause', 'workflow', 'error', p_workflow.error));
    PERFORM howdah.notify_watchers(ARRAY[left(p_workflow.name, 50)]::varchar[]);
END
$$;
COMMENT ON FUNCTION howdah.note_workflow IS 'Records the status of a workflow as an event with its id, and notifies watchers of the type of its name. Internal.';
REVOKE ALL ON FUNCTION howdah.note_workflow FROM PUBLIC;
