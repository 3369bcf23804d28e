-- Those that have left the live table: for the archive, or for good.
WITH there AS MATERIALIZED (SELECT j.id FROM howdah.live_jobs AS j WHERE j.id = ANY (%(ids)s::uuid[]))
SELECT w.id FROM unnest(%(ids)s::uuid[]) AS w (id)
WHERE NOT EXISTS (SELECT FROM there WHERE there.id = w.id)
