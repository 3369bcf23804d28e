CREATE OR REPLACE FUNCTION howdah.note_deleted(p_ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM howdah.workflows AS w WHERE w.finished_at IS NULL) THEN
        RETURN;
    END IF;
    INSERT INTO howdah.workflow_deltas (workflow_id, node, stripe, cancelled)
    SELECT m.workflow_id, m.node, m.stripe, count(*) FROM (
        SELECT o.workflow_id, o.node, howdah.stripe_of(('x' || right(d.id::text, 8))::bit(32)::int - ('x' || right(o.first_id::text, 8))::bit(32)::int) AS stripe
        FROM unnest(p_ids) AS d (id)
        CROSS JOIN LATERAL (
            SELECT n.* FROM howdah.workflow_nodes AS n WHERE n.first_id <= d.id ORDER BY n.first_id DESC LIMIT 1
        ) AS o
        WHERE o.state <> 'ended' AND d.id < howdah.member_id(o.first_id, o.jobs)
        UNION ALL
        SELECT o.workflow_id, o.node, howdah.stripe_of(-1 - (('x' || right(d.id::text, 8))::bit(32)::int - ('x' || right(o.first_id::text, 8))::bit(32)::int))
        FROM unnest(p_ids) AS d (id)
        CROSS JOIN LATERAL (
            SELECT s.* FROM howdah.workflow_spawned AS s WHERE s.first_id <= d.id ORDER BY s.first_id DESC LIMIT 1
        ) AS o
        JOIN howdah.workflow_nodes AS n ON n.workflow_id = o.workflow_id AND n.node = o.node AND n.state <> 'ended'
        WHERE d.id < howdah.member_id(o.first_id, o.jobs)
    ) AS m
    GROUP BY 1, 2, 3;
END
$$;
COMMENT ON FUNCTION howdah.note_deleted IS
    'Counts live jobs that a plain client has deleted as cancelled, if they belong to workflows. The rows are gone: their ids show their nodes. Internal.';
REVOKE ALL ON FUNCTION howdah.note_deleted FROM PUBLIC;
