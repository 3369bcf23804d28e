-- Once more by its name: the process might be another's by now.
SELECT pg_catalog.pg_terminate_backend(a.pid) AS done
FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid OPERATOR(pg_catalog.=) %(pid)s AND a.application_name OPERATOR(pg_catalog.=) %(name)s
