CREATE OR REPLACE FUNCTION howdah.timestamp_in(p_value jsonb) RETURNS timestamptz
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN (p_value #>> '{}')::timestamptz;
EXCEPTION
    WHEN data_exception OR program_limit_exceeded THEN
        RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.timestamp_in IS 'A JSON value as a timestamp; NULL if it is none.';
REVOKE ALL ON FUNCTION howdah.timestamp_in FROM PUBLIC;
