-- As watched.sql, for all that are held and have said something.
SELECT
    j.id,
    concat_ws(' ', j.ctid, j.xmin, CASE
        WHEN j.status = 'running' AND (j.report ->> 'token')::bigint = j.token
        THEN to_timestamp((j.report ->> 'stalls')::float8) < howdah.clock()
    END) AS mark
FROM howdah.live AS j
WHERE j.status IN ('claimed', 'running') AND j.report IS NOT NULL
    AND (%(job_types)s::text[] IS NULL OR j.job_type = ANY (%(job_types)s::text[]))
