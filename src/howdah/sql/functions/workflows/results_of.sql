CREATE OR REPLACE FUNCTION howdah.results_of(p_node howdah.workflow_nodes) RETURNS TABLE (results jsonb[], statuses varchar[], lost int, bytes bigint)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_end uuid := CASE WHEN p_node.jobs > 0 THEN howdah.member_id(p_node.first_id, p_node.jobs) END;
BEGIN
    SELECT coalesce(sum(pg_column_size(a.result)), 0), p_node.jobs - count(*) INTO bytes, lost
    FROM howdah.archive AS a
    WHERE a.id >= p_node.first_id AND a.id < v_end AND a.workflow_id = p_node.workflow_id;
    IF bytes <= 16777216 THEN
        SELECT array_agg(CASE WHEN a.status = 'completed' THEN a.result END ORDER BY a.id), array_agg(a.status ORDER BY a.id) INTO results, statuses
        FROM howdah.archive AS a
        WHERE a.id >= p_node.first_id AND a.id < v_end AND a.workflow_id = p_node.workflow_id;
    END IF;
    results := coalesce(results, '{}');
    statuses := coalesce(statuses, '{}');
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.results_of IS
    'The results of the jobs of a node, in the order of their places; NULL for one that has not completed. lost: how many jobs are not there any more. Without results if'
    ' they have more than 16 MiB. Internal.';
REVOKE ALL ON FUNCTION howdah.results_of FROM PUBLIC;
