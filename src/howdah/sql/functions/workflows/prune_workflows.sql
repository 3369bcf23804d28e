CREATE OR REPLACE FUNCTION howdah.prune_workflows(p_cutoff timestamptz) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
DECLARE
    v_ids uuid[] := ARRAY(
        SELECT w.id FROM howdah.workflows AS w WHERE w.finished_at < p_cutoff ORDER BY w.finished_at LIMIT 1000 FOR UPDATE SKIP LOCKED
    );
BEGIN
    DELETE FROM howdah.workflow_deltas AS d WHERE d.workflow_id = ANY (v_ids);
    DELETE FROM howdah.workflow_spawned AS s WHERE s.workflow_id = ANY (v_ids);
    DELETE FROM howdah.workflow_counts AS c WHERE c.workflow_id = ANY (v_ids);
    DELETE FROM howdah.workflow_edges AS e WHERE e.workflow_id = ANY (v_ids);
    DELETE FROM howdah.workflow_nodes AS n WHERE n.workflow_id = ANY (v_ids);
    DELETE FROM howdah.workflows AS w WHERE w.id = ANY (v_ids);
    RETURN cardinality(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.prune_workflows IS 'Deletes workflows that ended before p_cutoff, a thousand at most. Part of prune. Internal.';
REVOKE ALL ON FUNCTION howdah.prune_workflows FROM PUBLIC;
