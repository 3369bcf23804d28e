-- Any login can hold this lock: run wait_at_most first.
SET LOCAL client_min_messages = warning;
SET LOCAL check_function_bodies = off;
SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('howdah.migrate', 0));
