-- Some nodes of a workflow, in the order of their numbers.
SELECT
    n.node AS number, n.name, n.kind, n.when_ AS when, n.status, n.job_type, n.parents, n.first_id, n.jobs, n.opened_at, n.ended_at, n.error,
    n.remaining, n.completed, n.failed, n.cancelled
FROM howdah.node_details AS n
WHERE n.workflow_id OPERATOR(pg_catalog.=) %(id)s::pg_catalog.uuid
    AND (%(numbers)s::int[] IS NULL OR n.node OPERATOR(pg_catalog.=) ANY (%(numbers)s::int[])) AND n.node OPERATOR(pg_catalog.>) %(after)s::int
    AND (%(name)s::pg_catalog.text IS NULL OR n.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text)
ORDER BY n.node
LIMIT %(limit)s::int
