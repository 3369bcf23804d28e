-- Any login can hold these locks, so nothing waits for one for long. A producer that looks for sleepers has one for a moment only, which
-- is worth a short wait.
CREATE OR REPLACE FUNCTION howdah.share_locks(p_numbers int[]) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    v_class int := 'howdah.live'::regclass::oid::int;
    v_number int;
    v_shared int[] := '{}';
BEGIN
    FOREACH v_number IN ARRAY p_numbers LOOP
        IF NOT pg_try_advisory_lock_shared(v_class, v_number) THEN
            BEGIN
                PERFORM pg_advisory_lock_shared(v_class, v_number);
            EXCEPTION
                WHEN lock_not_available THEN
                    -- Locks of a session outlive the block in which they were taken.
                    PERFORM pg_advisory_unlock_shared(v_class, s.number) FROM unnest(v_shared) AS s (number);
                    RETURN false;
            END;
        END IF;
        v_shared := v_shared || v_number;
    END LOOP;
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.share_locks IS
    'Whether this session shares these locks from now on: all of them, or, where another session keeps one for itself, none. Part of'
    ' add_sleeper and add_watcher. Internal.';
REVOKE ALL ON FUNCTION howdah.share_locks FROM PUBLIC;
