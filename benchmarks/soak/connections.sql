-- Those of the soak's own workers and producers, only: each soak has a name of its own.
SELECT a.pid, a.application_name AS name
FROM pg_catalog.pg_stat_activity AS a
WHERE a.datname OPERATOR(pg_catalog.=) pg_catalog.current_database() AND pg_catalog.starts_with(a.application_name, %(run)s OPERATOR(pg_catalog.||) '-')
ORDER BY a.application_name, a.pid
