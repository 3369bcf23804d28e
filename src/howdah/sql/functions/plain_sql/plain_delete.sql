CREATE OR REPLACE FUNCTION howdah.plain_delete() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_id uuid;
BEGIN
    -- These rows were not deleted but moved, by plain_insert: all of them or none.
    SELECT g.id INTO v_id FROM gone AS g LIMIT 1;
    IF EXISTS (SELECT FROM howdah.live AS j WHERE j.id = v_id) THEN
        RETURN NULL;
    END IF;
    DELETE FROM howdah.events AS e WHERE e.job_id = ANY (ARRAY(SELECT g.id FROM gone AS g));
    PERFORM howdah.remove_steps(ARRAY(SELECT g.id FROM gone AS g));
    PERFORM howdah.note_deleted(array_agg(g.id)) FROM gone AS g WHERE g.status IN ('pending', 'claimed', 'running') HAVING count(*) > 0;
    PERFORM howdah.notify_watchers(array_agg(DISTINCT gone.job_type)) FROM gone HAVING count(*) > 0;
    -- A key, or a limit, has room again.
    PERFORM howdah.notify_workers(array_agg(t.job_type)) FROM howdah.types AS t
    WHERE t.keyed AND t.job_type IN (SELECT gone.job_type FROM gone) HAVING count(*) > 0;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.plain_delete IS 'Deletes the events and steps of jobs that a plain client deletes.';
REVOKE ALL ON FUNCTION howdah.plain_delete FROM PUBLIC;
