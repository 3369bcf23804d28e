-- The keys of one call are sorted, but not those across the calls of a long bulk: two such bulks, or one of them and a call with
-- several keys, could insert the same keys in different orders, and deadlock. So a long bulk locks its type exclusively until its
-- transaction ends, and single calls share the lock. The lock is an optimisation: without it, a deadlock ends one of the two.
--
-- A transaction that already holds such a lock, for this type or another, does not wait for a second one. Two transactions that each
-- hold one and wait for another could deadlock though they have no key in common.
--
-- Any login can take such a lock, by its number. A bulk that holds it also writes to the table of jobs, or of unique keys, which no
-- outsider can do. So this waits as long as a holder writes to one of them, and for a minute at most.
CREATE OR REPLACE FUNCTION howdah.lock_type_for_bulk(p_job_type varchar, p_shared boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_class int := 'howdah.types'::regclass::oid::int;
    v_type int := hashtext(p_job_type);
    -- The caller's own lock_timeout limits the whole wait, too.
    v_lock_timeout text := current_setting('lock_timeout');
    v_until timestamptz := clock_timestamp() + coalesce(nullif(v_lock_timeout::interval, '0'), interval '100 years');
    v_give_up_at timestamptz := clock_timestamp() + interval '1 minute';
    v_holders text;
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
    LOOP
        BEGIN
            PERFORM set_config('lock_timeout', least(
                1000, greatest(extract(epoch FROM v_until - clock_timestamp()) * 1000, 1)
            )::int::text, true);
            IF p_shared THEN
                PERFORM pg_advisory_xact_lock_shared(v_class, v_type);
            ELSE
                PERFORM pg_advisory_xact_lock(v_class, v_type);
            END IF;
            EXIT;
        EXCEPTION
            WHEN lock_not_available THEN
                IF clock_timestamp() >= v_until THEN
                    RAISE;
                END IF;
        END;
        SELECT string_agg(l.pid::text, ', ') INTO v_holders FROM pg_catalog.pg_locks AS l
        WHERE l.locktype = 'advisory' AND l.granted AND l.classid = v_class::oid AND l.objid = v_type::oid AND l.objsubid = 2
            AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
        HAVING NOT bool_or(EXISTS (
            SELECT FROM pg_catalog.pg_locks AS w
            WHERE w.virtualtransaction = l.virtualtransaction AND w.relation IN ('howdah.live'::regclass, 'howdah.uniques'::regclass)
                AND w.mode = 'RowExclusiveLock' AND w.granted
        ));
        IF v_holders IS NOT NULL OR clock_timestamp() >= v_give_up_at THEN
            RAISE WARNING 'bulks of type % are not serialised: pid % holds their lock', p_job_type, coalesce(v_holders, 'unknown')
                USING HINT = coalesce(
                    'End that session: SELECT pg_terminate_backend(' || split_part(v_holders, ',', 1) || ');',
                    'Run the doctor: it names the sessions that hold the lock.'
                );
            EXIT;
        END IF;
    END LOOP;
    PERFORM set_config('lock_timeout', v_lock_timeout, true);
END
$$;
COMMENT ON FUNCTION howdah.lock_type_for_bulk IS
    'For a bulk with keys that takes several calls of enqueue_many in one transaction: call it before them. Such bulks of a type then run one'
    ' after the other, because they could deadlock otherwise. It waits for transactions that add jobs, for a minute at most. p_shared is for a'
    ' single call; enqueue_many uses it by itself.';
REVOKE ALL ON FUNCTION howdah.lock_type_for_bulk FROM PUBLIC;
