CREATE OR REPLACE VIEW howdah.node_details AS
SELECT
    n.workflow_id,
    n.node,
    n.name,
    n.kind,
    n.when_,
    CASE
        WHEN n.state = 'ended' THEN n.outcome WHEN n.state = 'open' THEN 'running' ELSE 'waiting'
    END AS status,
    n.job_type,
    n.first_id,
    n.jobs,
    n.opened_at,
    n.ended_at,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) OR starts_with(n.error, 'not needed: ') THEN n.error
        WHEN n.error IS NOT NULL THEN '[redacted]'
    END AS error,
    ARRAY(SELECT e.parent FROM howdah.workflow_edges AS e WHERE e.workflow_id = n.workflow_id AND e.child = n.node ORDER BY e.parent) AS parents,
    c.remaining,
    c.completed,
    c.failed,
    c.cancelled
FROM howdah.workflow_nodes AS n
CROSS JOIN LATERAL (
    SELECT
        coalesce(sum(s.remaining), 0) AS remaining, coalesce(sum(s.completed), 0) AS completed, coalesce(sum(s.failed), 0) AS failed,
        coalesce(sum(s.cancelled), 0) AS cancelled
    FROM howdah.workflow_counts AS s WHERE s.workflow_id = n.workflow_id AND s.node = n.node
) AS c
WHERE n.node > 0;
COMMENT ON VIEW howdah.node_details IS 'The nodes of workflows: what each waits for, and how many of its jobs have not ended, and how the others have.';
