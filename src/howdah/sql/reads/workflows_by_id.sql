SELECT w.*, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted, howdah.clock() AS at
FROM howdah.workflow_details AS w
WHERE w.id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
