-- What tells one version of a live job from the next, for many at once, without their data.
SELECT j.id, concat_ws(' ', j.version, j.stalls_at < howdah.clock()) AS mark
FROM howdah.live_jobs AS j
WHERE j.id = ANY (%(ids)s::uuid[])
