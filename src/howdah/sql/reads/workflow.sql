SELECT w.*, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.workflow_details AS w
WHERE CASE WHEN %(id)s::pg_catalog.uuid IS NOT NULL THEN w.id OPERATOR(pg_catalog.=) %(id)s::pg_catalog.uuid
    ELSE w.name OPERATOR(pg_catalog.=) %(name)s::pg_catalog.text AND (%(key)s::pg_catalog.text IS NULL OR w.key OPERATOR(pg_catalog.=) %(key)s::pg_catalog.text) END
ORDER BY w.created_at DESC
LIMIT 1
