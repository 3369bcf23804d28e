CREATE OR REPLACE FUNCTION howdah.clock() RETURNS timestamptz
LANGUAGE sql STABLE PARALLEL SAFE
RETURN %(now)s::timestamptz
