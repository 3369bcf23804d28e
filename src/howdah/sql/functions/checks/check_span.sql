CREATE OR REPLACE FUNCTION howdah.check_span(p_span interval, p_name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_span <= '0' THEN
        RAISE EXCEPTION '% is %, and must be positive', p_name, p_span USING ERRCODE = 'JQ001';
    -- Parts of different signs may cancel out in a comparison, and overflow in an addition.
    ELSIF p_span > '36500 days' OR abs(extract(year FROM p_span)) > 100 OR abs(extract(day FROM p_span)) > 36500
        OR abs(extract(hour FROM p_span)) > 876000
    THEN
        RAISE EXCEPTION '% is %, and must not be more than a hundred years', p_name, p_span USING ERRCODE = 'JQ001';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_span IS
    'Rejects an interval that is not positive, or so long that adding it to a time could overflow, with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_span FROM PUBLIC;
