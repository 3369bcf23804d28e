-- Once more by its name: the process might be another's by now.
SELECT pg_terminate_backend(a.pid) AS done
FROM pg_stat_activity AS a
WHERE a.pid = %(pid)s AND a.application_name = %(name)s
