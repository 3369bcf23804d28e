SELECT
    c.job_type::text, sum(c.jobs)::bigint AS ended,
    coalesce(sum(c.jobs) FILTER (WHERE c.status = 'failed'), 0)::bigint AS failed
FROM howdah.archive_counts AS c
WHERE c.day >= (howdah.clock() AT TIME ZONE 'UTC')::date - 1
GROUP BY c.job_type
ORDER BY c.job_type
