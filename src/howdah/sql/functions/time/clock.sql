CREATE OR REPLACE FUNCTION howdah.clock() RETURNS pg_catalog.timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN pg_catalog.now();
COMMENT ON FUNCTION howdah.clock IS 'The clock of the queue, constant within a transaction. Tests replace it to move time.';
REVOKE ALL ON FUNCTION howdah.clock FROM PUBLIC;
