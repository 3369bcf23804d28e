CREATE OR REPLACE FUNCTION howdah.check_keys(p_keys text[], p_what text DEFAULT 'key') RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_what = 'flow key' AND array_position(p_keys, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'the flow key must not be NULL' USING ERRCODE = 'JQ001';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_keys) AS k (key) WHERE p_what = 'key' AND starts_with(k.key, 'schedule:')) THEN
        RAISE EXCEPTION 'a key cannot begin with schedule:' USING
            ERRCODE = 'JQ001', HINT = 'These keys are reserved for schedules whose jobs must not overlap. Choose another key.';
    END IF;
    IF EXISTS (SELECT FROM unnest(p_keys) AS k (key) WHERE char_length(k.key) > 200) THEN
        RAISE EXCEPTION 'a % has % characters; 200 are allowed', p_what, (SELECT max(char_length(k.key)) FROM unnest(p_keys) AS k (key)) USING
            ERRCODE = 'JQ001', HINT = 'Make a key of the digest of a long value.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_keys IS 'Rejects keys that are reserved for schedules, or too long, with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_keys FROM PUBLIC;
