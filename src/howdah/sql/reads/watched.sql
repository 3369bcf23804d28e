-- A mark that changes with each version of a live job, for many jobs at once, without their data.
SELECT j.id, pg_catalog.concat_ws(' ', j.version, j.stalls_at OPERATOR(pg_catalog.<) howdah.clock()) AS mark
FROM howdah.live_jobs AS j
WHERE j.id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
