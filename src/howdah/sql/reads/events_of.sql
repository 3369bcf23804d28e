-- The next events of many jobs, each from a place of its own. No job had any before its own of the sinces, nor before since,
-- the first of them: by this one the planner leaves out days, and by the others the executor more of them, job by job.
SELECT w.after, e.*, (SELECT NOT has_table_privilege('howdah.live'::regclass, 'SELECT')) AS is_redacted
FROM unnest(%(ids)s::uuid[], %(afters)s::int[], %(sinces)s::timestamptz[]) AS w (id, after, since)
CROSS JOIN LATERAL (
    SELECT * FROM howdah.event_details AS e
    WHERE e.job_id = w.id AND e.seq > w.after AND e.at >= w.since AND e.at >= %(since)s::timestamptz
        AND e.kind = ANY (%(kinds)s::text[])
    ORDER BY e.seq LIMIT %(limit)s::int
) AS e
ORDER BY e.job_id, w.after, e.seq
