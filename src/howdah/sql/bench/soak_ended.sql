-- Every row about a job that has ended. One that ended twice is there twice: the archive has no key.
SELECT a.id, (a.data ->> 'n')::bigint AS n, coalesce((a.data ->> 'fails')::int, 0) AS fails, a.token, a.status
FROM howdah.archive AS a
