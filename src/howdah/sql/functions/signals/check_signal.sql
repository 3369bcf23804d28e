CREATE OR REPLACE FUNCTION howdah.check_signal(p_name text, p_key text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_name IS NULL OR char_length(p_name) NOT BETWEEN 1 AND 100 OR p_name ~ '[[:cntrl:]]' THEN
        RAISE EXCEPTION '% is not the name of a signal', coalesce(quote_literal(left(p_name, 100)), 'NULL') USING
            ERRCODE = 'JQ001', HINT = 'A name has 1 to 100 characters, and no control characters.';
    ELSIF p_key = '' THEN
        RAISE EXCEPTION 'the key of the signal % is empty', p_name USING
            ERRCODE = 'JQ001', HINT = 'Leave the key out, or pass NULL, for a signal without one.';
    END IF;
    PERFORM howdah.check_keys(ARRAY[p_key], 'key of a signal');
END
$$;
COMMENT ON FUNCTION howdah.check_signal IS 'Rejects what cannot be the name or the key of a signal, with SQLSTATE JQ001. Internal.';
REVOKE ALL ON FUNCTION howdah.check_signal FROM PUBLIC;
