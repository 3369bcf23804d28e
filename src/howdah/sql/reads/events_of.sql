-- The next events of many jobs, each from a place of its own. No job had any before its own of the sinces, nor before since,
-- the first of them: by this one the planner leaves out days, and by the others the executor more of them, job by job.
SELECT w.after, e.*, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM ROWS FROM (
    pg_catalog.unnest(%(ids)s::pg_catalog.uuid[]),
    pg_catalog.unnest(%(afters)s::int[]),
    pg_catalog.unnest(%(sinces)s::pg_catalog.timestamptz[])
) AS w (id, after, since)
CROSS JOIN LATERAL (
    SELECT * FROM howdah.event_details AS e
    WHERE e.job_id OPERATOR(pg_catalog.=) w.id AND e.seq OPERATOR(pg_catalog.>) w.after
        AND e.at OPERATOR(pg_catalog.>=) w.since AND e.at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz
        AND e.kind OPERATOR(pg_catalog.=) ANY (%(kinds)s::pg_catalog.text[])
    ORDER BY e.seq LIMIT %(limit)s::int
) AS e
ORDER BY e.job_id, w.after, e.seq
