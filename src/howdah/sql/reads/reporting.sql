-- As watched.sql, for all that are held and have said something.
SELECT j.id, concat_ws(' ', j.version, j.stalls_at < howdah.clock()) AS mark
FROM howdah.live_jobs AS j
WHERE j.status IN ('claimed', 'running') AND j.report IS NOT NULL
    AND (%(job_types)s::text[] IS NULL OR j.job_type = ANY (%(job_types)s::text[]))
