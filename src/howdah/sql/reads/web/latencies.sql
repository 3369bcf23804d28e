-- The histograms of waits and run times, slot by slot or type by type. A row that is not folded yet has samples, each of which stands for several
-- jobs. The others have a row with the histograms of all types together, whose type is empty. In the list of columns, unnest is several times as fast as a join with it.
SELECT
    e.slot_at, e.job_type, e.kind, e.bucket, pg_catalog.sum(coalesce(e.jobs::pg_catalog.float8, e.share)) AS jobs
FROM (
    SELECT
        m.slot_at, m.job_type, h.kind, m.ended OPERATOR(pg_catalog./) pg_catalog.cardinality(h.buckets) AS share,
        pg_catalog.unnest(h.buckets) AS bucket, pg_catalog.unnest(h.jobs) AS jobs
    FROM (
        SELECT
            CASE WHEN NOT %(by_type)s::boolean THEN pg_catalog.date_bin(%(slot)s::pg_catalog.interval, f.at, 'epoch'::pg_catalog.timestamptz) END AS slot_at,
            CASE WHEN %(by_type)s::boolean THEN f.job_type END AS job_type,
            greatest(f.completed OPERATOR(pg_catalog.+) f.failed, 1)::pg_catalog.float8 AS ended, f.waits, f.wait_jobs, f.runs, f.run_jobs
        FROM howdah.minutes AS f
        WHERE f.level OPERATOR(pg_catalog.=) ANY ('{0,1,2,3}'::pg_catalog.int2[]) AND f.at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz
            AND (f.level OPERATOR(pg_catalog.=) 0 OR (f.job_type OPERATOR(pg_catalog.=) '') OPERATOR(pg_catalog.<>) %(by_type)s::boolean)
    ) AS m
    CROSS JOIN LATERAL (VALUES ('waits', m.waits, m.wait_jobs), ('runs', m.runs, m.run_jobs)) AS h (kind, buckets, jobs)
    WHERE h.buckets IS NOT NULL
) AS e
WHERE e.bucket IS NOT NULL
GROUP BY e.slot_at, e.job_type, e.kind, e.bucket
