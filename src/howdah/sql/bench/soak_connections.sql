-- Those of the soak's own workers and producers, and nobody else's: each soak has a name of its own.
SELECT a.pid, a.application_name AS name
FROM pg_stat_activity AS a
WHERE a.datname = current_database() AND starts_with(a.application_name, %(run)s || '-')
ORDER BY a.application_name, a.pid
