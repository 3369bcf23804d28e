SELECT *, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.event_details
WHERE job_id OPERATOR(pg_catalog.=) %(id)s AND seq OPERATOR(pg_catalog.>) %(after)s::int AND (%(kinds)s::pg_catalog.text[] IS NULL OR kind OPERATOR(pg_catalog.=) ANY (%(kinds)s::pg_catalog.text[]))
ORDER BY seq LIMIT %(limit)s::int
