-- How far groups of jobs are; what is not live any more is not counted.
SELECT w.party, j.status, count(*) AS jobs, sum(j.progress)::bigint AS percents
FROM unnest(%(ids)s::uuid[], %(parties)s::int[]) AS w (id, party)
JOIN howdah.live_jobs AS j ON j.id = w.id AND j.id = ANY (%(ids)s::uuid[])
GROUP BY w.party, j.status
