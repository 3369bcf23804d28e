-- The last workflow of the window that workflows.sql searched; none if the window reached the end.
SELECT id FROM howdah.workflow_details
WHERE %(before)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid
ORDER BY id DESC
OFFSET %(window)s::int OPERATOR(pg_catalog.-) 1 LIMIT 1
