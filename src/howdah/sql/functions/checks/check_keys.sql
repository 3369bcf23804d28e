CREATE OR REPLACE FUNCTION howdah.check_keys(p_keys text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_keys) AS k (key) WHERE starts_with(k.key, 'schedule:')) THEN
        RAISE EXCEPTION 'a key cannot begin with schedule:' USING
            ERRCODE = 'JQ001', HINT = 'These keys are reserved for schedules whose jobs must not overlap. Choose another key.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_keys IS 'Rejects keys that are reserved for schedules with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_keys FROM PUBLIC;
