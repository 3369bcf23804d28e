CREATE OR REPLACE FUNCTION howdah.clock() RETURNS pg_catalog.timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN %(now)s::pg_catalog.timestamptz
