CREATE OR REPLACE FUNCTION howdah.delete_jobs(p_ids uuid[]) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
-- The plan must be id = ANY, whatever the statistics, and rows must be locked in the order of their ids: see retry.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_live uuid[];
    v_ended uuid[];
    v_job_types varchar[];
    v_key_types varchar[];
    v_flow_keys text[];
    v_workflow_ids uuid[];
    v_nodes int[];
    v_places int[];
BEGIN
    SELECT array_agg(j.id) INTO v_live FROM (
        SELECT j.id FROM howdah.live AS j WHERE j.id = ANY (p_ids) AND j.status <> 'running' ORDER BY j.id FOR UPDATE
    ) AS j;
    SELECT array_agg(a.id) INTO v_ended FROM (
        SELECT a.id FROM howdah.archive AS a WHERE a.id = ANY (p_ids) ORDER BY a.id FOR UPDATE
    ) AS a;
    WITH live AS (
        DELETE FROM howdah.live AS j WHERE j.id = ANY (v_live) RETURNING j.job_type, j.flow_key, j.workflow_id, j.node, j.place
    ), ended AS (
        DELETE FROM howdah.archive AS a WHERE a.id = ANY (v_ended) RETURNING a.job_type
    )
    SELECT
        array_agg(DISTINCT d.job_type), array_agg(d.job_type) FILTER (WHERE d.flow_key IS NOT NULL),
        array_agg(d.flow_key) FILTER (WHERE d.flow_key IS NOT NULL), array_agg(d.workflow_id) FILTER (WHERE d.node IS NOT NULL),
        array_agg(d.node) FILTER (WHERE d.node IS NOT NULL), array_agg(d.place) FILTER (WHERE d.node IS NOT NULL)
    INTO v_job_types, v_key_types, v_flow_keys, v_workflow_ids, v_nodes, v_places
    FROM (
        SELECT l.job_type, l.flow_key, l.workflow_id, l.node, l.place FROM live AS l
        -- An ended one was counted before.
        UNION ALL SELECT e.job_type, NULL, NULL, NULL, NULL FROM ended AS e
    ) AS d;
    IF v_nodes IS NOT NULL THEN
        PERFORM howdah.note_members(v_workflow_ids, v_nodes, v_places, array_fill('cancelled'::varchar, ARRAY[cardinality(v_nodes)]));
    END IF;
    DELETE FROM howdah.events AS e WHERE e.job_id = ANY (v_live || v_ended);
    PERFORM howdah.remove_steps(v_live || v_ended);
    PERFORM howdah.notify_watchers(v_job_types);
    IF v_key_types IS NOT NULL THEN
        -- The next job of its key may start.
        PERFORM howdah.end_rests(v_key_types, v_flow_keys);
        PERFORM howdah.notify_workers(v_key_types);
    END IF;
    RETURN QUERY SELECT unnest(v_live || v_ended);
END
$$;
COMMENT ON FUNCTION howdah.delete_jobs IS
    'Deletes waiting and ended jobs, with their events. A running job is left as it is: cancel it first. Returns the jobs that it deleted.';
REVOKE ALL ON FUNCTION howdah.delete_jobs FROM PUBLIC;
