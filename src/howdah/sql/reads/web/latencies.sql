-- The histograms of waits and run times, slot by slot or type by type. A row that is not folded yet has samples, each of which stands for several
-- jobs.
SELECT
    CASE WHEN NOT %(by_type)s::boolean THEN pg_catalog.date_bin(%(slot)s::pg_catalog.interval, m.at, 'epoch'::pg_catalog.timestamptz) END AS slot_at,
    CASE WHEN %(by_type)s::boolean THEN m.job_type END AS job_type,
    h.kind, b.bucket, pg_catalog.sum(coalesce(
        b.jobs::pg_catalog.float8,
        greatest(m.completed OPERATOR(pg_catalog.+) m.failed, 1)::pg_catalog.float8 OPERATOR(pg_catalog./) pg_catalog.cardinality(h.buckets)
    )) AS jobs
FROM howdah.minutes AS m
CROSS JOIN LATERAL (VALUES ('waits', m.waits, m.wait_jobs), ('runs', m.runs, m.run_jobs)) AS h (kind, buckets, jobs)
CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(h.buckets), pg_catalog.unnest(h.jobs)) AS b (bucket, jobs)
WHERE m.level OPERATOR(pg_catalog.=) ANY ('{0,1,2,3}'::pg_catalog.int2[]) AND m.at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz AND h.buckets IS NOT NULL AND b.bucket IS NOT NULL
GROUP BY 1, 2, 3, 4
