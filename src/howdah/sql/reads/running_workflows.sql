-- As workflows.sql, found by those that have not ended, however many have: of these there is an index, by which they are sorted first.
WITH running AS MATERIALIZED (
    SELECT r.id FROM howdah.workflow_details AS r
    WHERE r.finished_at IS NULL
        AND (%(name)s::pg_catalog.text IS NULL OR r.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text)
        AND (%(before)s::pg_catalog.uuid IS NULL OR r.id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid)
    ORDER BY least(r.deadline_at, r.expires_at)
), newest AS MATERIALIZED (
    SELECT r.id FROM running AS r ORDER BY r.id DESC LIMIT %(limit)s
)
SELECT w.*, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.workflow_details AS w
WHERE w.id OPERATOR(pg_catalog.=) ANY (ARRAY(SELECT n.id FROM newest AS n))
ORDER BY w.id DESC
