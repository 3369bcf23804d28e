SELECT a.number, a.at, a.visitor, a.login::pg_catalog.text AS login, a.action, a.target, a.jobs, a.outcome
FROM howdah.audit_details AS a
WHERE (%(before)s::bigint IS NULL OR a.number OPERATOR(pg_catalog.<) %(before)s::bigint)
ORDER BY a.number DESC
LIMIT %(limit)s::int
