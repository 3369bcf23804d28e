-- What tells one version of a live job from the next, for many at once, without their data.
SELECT
    j.id,
    concat_ws(' ', j.ctid, j.xmin, CASE
        WHEN j.status = 'running' AND (j.report ->> 'token')::bigint = j.token
        THEN to_timestamp((j.report ->> 'stalls')::float8) < howdah.clock()
    END) AS mark
FROM howdah.live AS j
WHERE j.id = ANY (%(ids)s::uuid[])
