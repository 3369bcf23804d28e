CREATE OR REPLACE FUNCTION howdah.check_keys(p_keys text[]) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF EXISTS (SELECT FROM unnest(p_keys) AS k (key) WHERE starts_with(k.key, 'schedule:')) THEN
        RAISE EXCEPTION 'a key cannot begin with schedule:' USING
            ERRCODE = 'JQ001', HINT = 'Jobs of schedules that must not overlap have such keys. Choose another.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_keys IS 'Refuses keys that only schedules may give with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_keys FROM PUBLIC;
