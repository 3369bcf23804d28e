-- The ended jobs of each type, in all and of the last two days, from the counts.
SELECT
    c.job_type, c.status, pg_catalog.sum(c.jobs)::bigint AS jobs,
    coalesce(pg_catalog.sum(c.jobs) FILTER (WHERE c.day OPERATOR(pg_catalog.>=) ((howdah.clock() AT TIME ZONE 'UTC')::pg_catalog.date)), 0)::bigint AS today
FROM howdah.archive_counts AS c
GROUP BY c.job_type, c.status
HAVING pg_catalog.sum(c.jobs) OPERATOR(pg_catalog.>) 0
