-- Every row about a job that has ended. One that ended twice is there twice: the archive has no key.
SELECT a.id, (a.data OPERATOR(pg_catalog.->>) 'n')::bigint AS n, coalesce((a.data OPERATOR(pg_catalog.->>) 'fails')::int, 0) AS fails, a.token, a.status
FROM howdah.archive AS a
