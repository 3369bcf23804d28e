-- One window of the workflows, newest first, without large columns. Those of the window are filtered before their jobs are counted.
SELECT
    w.id, w.name, w.key, w.status, w.created_at, w.finished_at, w.deadline_at, w.expires_at, w.cancel_requested_at, w.cancel_reason,
    pg_catalog.left(w.error, 300) AS error, w.remaining, w.completed, w.failed, w.cancelled,
    NULL::pg_catalog.jsonb AS data, NULL::pg_catalog.jsonb AS meta,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.workflow_details AS w
WHERE w.id OPERATOR(pg_catalog.=) ANY (ARRAY(
    SELECT seen.id FROM (
        SELECT id, name, status FROM howdah.workflow_details
        WHERE %(before)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid
        ORDER BY id DESC
        LIMIT %(window)s::int
    ) AS seen
    WHERE (%(name)s::pg_catalog.text IS NULL OR seen.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text)
        AND (%(status)s::pg_catalog.text IS NULL OR seen.status OPERATOR(pg_catalog.=) %(status)s::pg_catalog.text)
    ORDER BY seen.id DESC
    LIMIT %(limit)s::int
))
ORDER BY w.id DESC
