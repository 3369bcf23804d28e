CREATE OR REPLACE FUNCTION howdah.check_meta(p_meta jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_meta) <> 'object' THEN
        RAISE EXCEPTION 'meta is a JSON object, not a %', jsonb_typeof(p_meta) USING ERRCODE = 'JQ001';
    ELSIF pg_column_size(p_meta) > 131072 THEN
        RAISE EXCEPTION 'meta has % bytes; 131072 are allowed', pg_column_size(p_meta) USING
            ERRCODE = 'JQ003', HINT = 'It is for tags: store what is large elsewhere, and a reference to it here.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_meta IS 'Refuses what is no JSON object with SQLSTATE JQ001, and a large one with JQ003.';
REVOKE ALL ON FUNCTION howdah.check_meta FROM PUBLIC;
