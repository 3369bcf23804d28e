-- A mark that changes with the status and the counts of a workflow, for many at once.
SELECT
    w.id, w.status,
    pg_catalog.concat_ws(' ', w.status, w.remaining, w.completed, w.failed, w.cancelled, w.cancel_requested_at, w.created_at, w.expires_at) AS mark
FROM howdah.workflow_details AS w
WHERE w.id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
