-- A row lock, not an advisory lock: any login can take those.
CREATE OR REPLACE FUNCTION howdah.has_segments() RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'maintenance of segments needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001', HINT = 'A stricter transaction cannot see what was committed meanwhile. Use READ COMMITTED.';
    END IF;
    PERFORM FROM howdah.segments AS s WHERE s.closed_at IS NULL FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.has_segments IS
    'Locks the segments and their counts for this transaction. False if another transaction has the lock. Internal.';
REVOKE ALL ON FUNCTION howdah.has_segments FROM PUBLIC;
