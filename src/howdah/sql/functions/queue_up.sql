-- The keys of one call are sorted, but not those of the several calls of a long bulk: two such bulks, or one of them and a call
-- with several keys, could meet each other's keys in different orders, and deadlock. So a long bulk has its type for itself until
-- its transaction ends, and single calls share it. It is no more than a courtesy: without it, a deadlock ends one of the two.
--
-- Who has queued up before in the same transaction, for this type or another, does not wait for it. Whoever has one of these
-- locks and waits for a second one may be waited for in turn, and the two would deadlock though no key of theirs is the same.
CREATE OR REPLACE FUNCTION howdah.queue_up(p_job_type varchar, p_shared boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_class int := 'howdah.types'::regclass::oid::int;
    v_type int := hashtext(p_job_type);
BEGIN
    IF (
        CASE WHEN p_shared THEN pg_try_advisory_xact_lock_shared(v_class, v_type) ELSE pg_try_advisory_xact_lock(v_class, v_type) END
    ) OR EXISTS (
        SELECT FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted
            AND l.classid = 'howdah.types'::regclass AND l.objsubid = 2
    ) THEN
        RETURN;
    END IF;
    IF p_shared THEN
        PERFORM pg_advisory_xact_lock_shared(v_class, v_type);
    ELSE
        PERFORM pg_advisory_xact_lock(v_class, v_type);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.queue_up IS
    'For a bulk with keys that takes several calls of enqueue_many in one transaction: called before them, it lets such bulks of a type go one'
    ' after the other, because they could deadlock otherwise. p_shared is for a single call, which does it by itself.';
REVOKE ALL ON FUNCTION howdah.queue_up FROM PUBLIC;
