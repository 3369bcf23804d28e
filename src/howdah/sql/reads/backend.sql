SELECT pg_catalog.pg_backend_pid() AS pid
