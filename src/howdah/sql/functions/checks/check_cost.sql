CREATE OR REPLACE FUNCTION howdah.check_cost(p_cost int) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_cost NOT BETWEEN 1 AND 1000000 THEN
        RAISE EXCEPTION 'the cost is %, and must be from 1 to 1000000', p_cost USING ERRCODE = 'JQ001';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_cost IS 'Refuses a cost of a job that no rate can have. Internal.';
REVOKE ALL ON FUNCTION howdah.check_cost FROM PUBLIC;
