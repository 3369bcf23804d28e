-- Any login can hold these locks, so no call waits long for one. A producer that looks for sleepers holds one for a moment only, which
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
                    -- Session locks survive the rollback of the block that took them.
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
    'Takes these locks in shared mode for the session: all of them, or none (false) if another session holds one exclusively. Part of'
    ' add_sleeper and add_watcher. Internal.';
REVOKE ALL ON FUNCTION howdah.share_locks FROM PUBLIC;
