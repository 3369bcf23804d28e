-- The last job of a window of jobs.sql; none if the window reaches the end.
SELECT id FROM howdah.job_details
WHERE (%(before)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid)
    AND (%(first_id)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.>=) %(first_id)s::pg_catalog.uuid)
    AND (%(statuses)s::pg_catalog.text[] IS NULL OR status OPERATOR(pg_catalog.=) ANY (%(statuses)s::pg_catalog.text[]))
    AND (%(live)s::boolean OR finished_at IS NOT NULL) AND (%(ended)s::boolean OR finished_at IS NULL)
ORDER BY id DESC
OFFSET %(window)s::int OPERATOR(pg_catalog.-) 1 LIMIT 1
