CREATE OR REPLACE FUNCTION howdah.is_passing(p_sqlstate text) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN left(p_sqlstate, 2) IN ('08', '25', '40', '53', '55', '57', '58');
COMMENT ON FUNCTION howdah.is_passing IS
    'Whether an error is one of the server or of concurrency, such as a lock, a full disk or a shutdown, and not of one job. Internal.';
REVOKE ALL ON FUNCTION howdah.is_passing FROM PUBLIC;
