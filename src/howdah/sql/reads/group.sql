-- The progress of groups of jobs; only live jobs are counted.
SELECT w.party, j.status, pg_catalog.count(*) AS jobs, pg_catalog.sum(j.progress)::bigint AS percents
FROM ROWS FROM (pg_catalog.unnest(%(ids)s::pg_catalog.uuid[]), pg_catalog.unnest(%(parties)s::int[])) AS w (id, party)
JOIN howdah.live_jobs AS j ON j.id OPERATOR(pg_catalog.=) w.id AND j.id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
GROUP BY w.party, j.status
