-- The jobs that have left the live table: archived, or deleted.
WITH there AS MATERIALIZED (SELECT j.id FROM howdah.live_jobs AS j WHERE j.id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[]))
SELECT w.id FROM pg_catalog.unnest(%(ids)s::pg_catalog.uuid[]) AS w (id)
WHERE NOT EXISTS (SELECT FROM there WHERE there.id OPERATOR(pg_catalog.=) w.id)
