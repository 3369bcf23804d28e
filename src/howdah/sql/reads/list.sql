-- One window of the jobs, newest first. What an index finds (id, status) bounds the window; what none
-- does is looked for inside it.
SELECT
    *,
    coalesce(stalls_at OPERATOR(pg_catalog.<) howdah.clock(), false) AS stalled,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM (
    SELECT * FROM howdah.job_details
    WHERE (%(before)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid)
        AND (%(statuses)s::pg_catalog.text[] IS NULL OR status OPERATOR(pg_catalog.=) ANY (%(statuses)s::pg_catalog.text[]))
    ORDER BY id DESC
    LIMIT %(window)s::int
) AS seen
WHERE (%(job_types)s::pg_catalog.text[] IS NULL OR job_type OPERATOR(pg_catalog.=) ANY (%(job_types)s::pg_catalog.text[]))
    AND (%(least_priority)s::int IS NULL OR priority OPERATOR(pg_catalog.>=) %(least_priority)s::int)
    AND (%(most_priority)s::int IS NULL OR priority OPERATOR(pg_catalog.<=) %(most_priority)s::int)
    AND (%(since)s::pg_catalog.timestamptz IS NULL OR created_at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz)
    AND (%(until)s::pg_catalog.timestamptz IS NULL OR created_at OPERATOR(pg_catalog.<) %(until)s::pg_catalog.timestamptz)
    AND (NOT %(stalled)s::boolean OR stalls_at OPERATOR(pg_catalog.<) howdah.clock())
    AND (%(data)s::pg_catalog.jsonb IS NULL OR data OPERATOR(pg_catalog.@>) %(data)s::pg_catalog.jsonb)
LIMIT %(limit)s::int
