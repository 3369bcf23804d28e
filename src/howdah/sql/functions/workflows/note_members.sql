CREATE OR REPLACE FUNCTION howdah.note_members(p_workflow_ids uuid[], p_nodes int[], p_places int[], p_statuses varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO howdah.workflow_deltas (workflow_id, node, stripe, completed, failed, cancelled)
    SELECT
        m.workflow_id, m.node, howdah.stripe_of(m.place), count(*) FILTER (WHERE m.status = 'completed'),
        count(*) FILTER (WHERE m.status = 'failed'), count(*) FILTER (WHERE m.status = 'cancelled')
    FROM unnest(p_workflow_ids, p_nodes, p_places, p_statuses) AS m (workflow_id, node, place, status)
    WHERE m.node IS NOT NULL
    GROUP BY 1, 2, 3;
END
$$;
COMMENT ON FUNCTION howdah.note_members IS 'Notes how jobs of workflows have ended; they are counted at the end of the transaction. Internal.';
REVOKE ALL ON FUNCTION howdah.note_members FROM PUBLIC;
