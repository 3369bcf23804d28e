-- What tells one version of a live job from the next, for many at once, without their data.
SELECT j.id, pg_catalog.concat_ws(' ', j.version, j.stalls_at OPERATOR(pg_catalog.<) howdah.clock()) AS mark
FROM howdah.live_jobs AS j
WHERE j.id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
