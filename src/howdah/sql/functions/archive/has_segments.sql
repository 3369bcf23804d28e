-- A row lock and not an advisory one: those can be taken by any login.
CREATE OR REPLACE FUNCTION howdah.has_segments() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'this needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001', HINT = 'A stricter one could not see what has been committed meanwhile.';
    END IF;
    PERFORM FROM howdah.segments AS s WHERE s.closed_at IS NULL FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.has_segments IS
    'Whether this transaction has the segments and their counts for itself, until it ends. False if another one has. Internal.';
REVOKE ALL ON FUNCTION howdah.has_segments FROM PUBLIC;
