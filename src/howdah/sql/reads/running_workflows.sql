-- As workflows.sql, found by those that have not ended, however many have.
SELECT w.*, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.workflow_details AS w
WHERE w.finished_at IS NULL
    AND (%(name)s::pg_catalog.text IS NULL OR w.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text)
    AND (%(before)s::pg_catalog.uuid IS NULL OR w.id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid)
ORDER BY w.id DESC
LIMIT %(limit)s
