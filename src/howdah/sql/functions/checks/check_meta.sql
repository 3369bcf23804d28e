CREATE OR REPLACE FUNCTION howdah.check_meta(p_meta jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_meta) <> 'object' THEN
        RAISE EXCEPTION 'meta must be a JSON object, not a %', jsonb_typeof(p_meta) USING ERRCODE = 'JQ001';
    ELSIF pg_column_size(p_meta) > 131072 THEN
        RAISE EXCEPTION 'meta has % bytes; 131072 are allowed', pg_column_size(p_meta) USING
            ERRCODE = 'JQ003', HINT = 'meta is for tags: store large values elsewhere, and a reference to them here.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_meta IS 'Rejects a value that is no JSON object with SQLSTATE JQ001, and one that is too large with JQ003.';
REVOKE ALL ON FUNCTION howdah.check_meta FROM PUBLIC;
