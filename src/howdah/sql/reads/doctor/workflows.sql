-- Nodes that wait for what does not come: their jobs are gone without having been counted, or nothing has advanced them for a minute.
WITH node AS MATERIALIZED (
    SELECT n.*, w.name AS workflow, howdah.clock() - interval '1 minute' AS since
    FROM howdah.workflow_details AS w JOIN howdah.node_details AS n ON n.workflow_id = w.id
    WHERE w.status = 'running' AND w.started_at < howdah.clock() - interval '1 minute' AND n.status IN ('running', 'waiting')
), member AS MATERIALIZED (
    SELECT DISTINCT j.workflow_id, j.node FROM howdah.live_jobs AS j WHERE j.node IS NOT NULL
), stuck AS (
    SELECT
        node.workflow_id, node.workflow, node.name, node.remaining, node.opened_at,
        CASE
            WHEN node.remaining > 0 AND member.node IS NULL THEN 'lost'
            WHEN node.status = 'running' AND node.remaining = 0 AND node.opened_at < node.since THEN 'behind'
            WHEN node.status = 'waiting' AND NOT EXISTS (
                SELECT FROM howdah.node_details AS p
                WHERE p.workflow_id = node.workflow_id AND p.node = ANY (node.parents) AND coalesce(p.ended_at >= node.since, true)
            ) THEN 'behind'
        END AS cause
    FROM node LEFT JOIN member ON member.workflow_id = node.workflow_id AND member.node = node.node
)
SELECT
    s.cause, count(*) AS nodes, count(DISTINCT s.workflow_id) AS workflows, min(s.workflow_id::text) AS first_id,
    (array_agg(s.workflow || '/' || s.name ORDER BY s.workflow_id, s.name))[:5] AS names, sum(s.remaining)::bigint AS jobs,
    (SELECT count(*) FROM howdah.workers AS w WHERE w.heartbeat_at >= howdah.lease_clock() - w.lease) AS living
FROM stuck AS s WHERE s.cause IS NOT NULL
GROUP BY s.cause
ORDER BY s.cause
