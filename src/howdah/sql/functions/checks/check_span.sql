CREATE OR REPLACE FUNCTION howdah.check_span(p_span interval, p_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_span <= '0' THEN
        RAISE EXCEPTION '% is %, and must be positive', p_name, p_span USING ERRCODE = 'JQ001';
    ELSIF p_span > '36500 days' THEN
        RAISE EXCEPTION '% is %, and must not be more than a hundred years', p_name, p_span USING ERRCODE = 'JQ001';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_span IS
    'Rejects an interval that is not positive, or so long that adding it to a time could overflow, with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_span FROM PUBLIC;
