-- The next events of many jobs, each from a place of its own.
SELECT w.after, e.*
FROM unnest(%(ids)s::uuid[], %(afters)s::int[]) AS w (id, after)
CROSS JOIN LATERAL (
    SELECT * FROM howdah.events AS e
    WHERE e.job_id = w.id AND e.seq > w.after AND e.kind = ANY (%(kinds)s::text[])
    ORDER BY e.seq LIMIT %(limit)s::int
) AS e
ORDER BY e.job_id, w.after, e.seq
