CREATE OR REPLACE FUNCTION howdah.unique_keys(p_data jsonb[], p_keys text[], p_by jsonb, p_hashed_by text) RETURNS text[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- The mark of encryption.EncryptedCodec, in two parts: the name of the schema is substituted in this file.
    v_sealed text := concat('how', 'dah.sealed');
BEGIN
    IF p_keys IS NOT NULL AND (cardinality(p_keys) IS DISTINCT FROM cardinality(p_data) OR array_position(p_keys, NULL) IS NOT NULL) THEN
        RAISE EXCEPTION 'each job needs a key: there are % keys for % jobs', cardinality(array_remove(p_keys, NULL)), cardinality(p_data)
            USING ERRCODE = 'JQ001', HINT = 'Pass one key for each element of p_data.';
    ELSIF p_by = '"key"' THEN
        IF p_keys IS NULL THEN
            RAISE EXCEPTION 'these jobs are unique by their keys, and have none' USING ERRCODE = 'JQ001', HINT = 'Pass p_keys.';
        END IF;
        PERFORM howdah.check_keys(p_keys);
        RETURN ARRAY(SELECT 'key:' || k.key FROM unnest(p_keys) WITH ORDINALITY AS k (key, place) ORDER BY k.place);
    ELSIF p_keys IS NOT NULL THEN
        IF EXISTS (SELECT FROM unnest(p_keys) AS k (key) WHERE k.key !~ '^[0-9a-f]{64}$') THEN
            RAISE EXCEPTION 'a key for jobs that are unique by their arguments is a SHA-256 in hexadecimal' USING
                ERRCODE = 'JQ001', HINT = 'Leave p_keys out, and the database makes them; or use the rule {"by": "key"}.';
        END IF;
        RETURN p_keys;
    ELSIF p_hashed_by = 'client' OR EXISTS (SELECT FROM unnest(p_data) AS d (data) WHERE d.data ? v_sealed) THEN
        RAISE EXCEPTION 'the database cannot read the arguments of these jobs: a codec has encoded them' USING
            ERRCODE = 'JQ001',
            HINT = 'Enqueue them with the Python client, which makes the keys before it encodes, or use the rule {"by": "key"} with p_keys.';
    END IF;
    RETURN ARRAY(
        SELECT howdah.unique_key(coalesce(d.data, '{}'), p_by) FROM unnest(p_data) WITH ORDINALITY AS d (data, place) ORDER BY d.place
    );
END
$$;
COMMENT ON FUNCTION howdah.unique_keys IS 'The unique keys of jobs: from their arguments, or those that were given. Internal.';
REVOKE ALL ON FUNCTION howdah.unique_keys FROM PUBLIC;
