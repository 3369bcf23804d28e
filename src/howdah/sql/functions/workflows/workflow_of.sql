CREATE OR REPLACE FUNCTION howdah.workflow_of(p_job_id uuid) RETURNS uuid
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_found uuid;
BEGIN
    -- The ids of the jobs of a node follow each other: see member_id. So no archive is searched.
    SELECT o.workflow_id INTO v_found FROM (
        SELECT n.workflow_id, n.first_id, n.jobs FROM howdah.workflow_nodes AS n WHERE n.first_id <= p_job_id ORDER BY n.first_id DESC LIMIT 1
    ) AS o
    WHERE o.jobs > 0 AND p_job_id < howdah.member_id(o.first_id, o.jobs);
    IF NOT FOUND THEN
        SELECT o.workflow_id INTO v_found FROM (
            SELECT s.workflow_id, s.first_id, s.jobs FROM howdah.workflow_spawned AS s WHERE s.first_id <= p_job_id ORDER BY s.first_id DESC LIMIT 1
        ) AS o
        WHERE p_job_id < howdah.member_id(o.first_id, o.jobs);
    END IF;
    RETURN v_found;
END
$$;
COMMENT ON FUNCTION howdah.workflow_of IS 'The id of the workflow in which a job counts, or counted; NULL: in none.';
REVOKE ALL ON FUNCTION howdah.workflow_of FROM PUBLIC;
