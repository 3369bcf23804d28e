-- The next events of many jobs, each after its own seq. No job had events before its own time in sinces, nor before since, the earliest
-- of them: by since the planner skips segments, and by sinces the executor skips more of them, job by job.
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
