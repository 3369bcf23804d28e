-- How many jobs of each type ended, slot by slot, and how many waited at most.
SELECT
    pg_catalog.date_bin(%(slot)s::pg_catalog.interval, m.at, 'epoch'::pg_catalog.timestamptz) AS slot_at, m.job_type,
    pg_catalog.sum(m.completed)::bigint AS completed, pg_catalog.sum(m.failed)::bigint AS failed, pg_catalog.sum(m.cancelled)::bigint AS cancelled,
    pg_catalog.max(m.backlog) AS backlog
FROM howdah.minutes AS m
WHERE m.level OPERATOR(pg_catalog.=) ANY ('{0,1,2,3}'::pg_catalog.int2[]) AND m.at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz
GROUP BY 1, 2
