-- A transaction from before a type became ordered may add or release jobs the old way, and commit at any later time. A lock on the
-- table of jobs until it ends would block every producer behind one idle transaction. So the type changes at once, and its jobs
-- follow until the last of those transactions has ended. Meanwhile a job without its order_key is not claimed, as if it were
-- committed a little later.
CREATE OR REPLACE FUNCTION howdah.apply_order(p_job_type varchar, p_declares boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_key text;
    v_before text[];
    v_running text[];
    v_moved bigint;
BEGIN
    -- A sweep that finds the row locked leaves the type to the next one.
    SELECT CASE WHEN t.ordered THEN '' END, t.settling INTO v_key, v_before
    FROM howdah.types AS t WHERE t.job_type = p_job_type AND t.settling IS NOT NULL
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    -- Read before the jobs: the next statement sees what these transactions have committed by then.
    v_running := ARRAY(
        SELECT l.virtualtransaction FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
        WHERE l.locktype = 'virtualxid' AND l.granted AND l.pid <> pg_backend_pid()
            -- Autovacuum, which has no user, adds no jobs, and may take long.
            AND a.usesysid IS NOT NULL
            AND a.datid = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
            AND (v_before = '{}' OR l.virtualtransaction = ANY (v_before))
        UNION
        -- One of them that has been prepared since.
        SELECT l.virtualtransaction FROM pg_catalog.pg_locks AS l
        WHERE l.relation = 'howdah.live'::regclass AND l.pid IS NULL
            AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
    );
    -- Held jobs follow when they are released: several may be held now, and an order allows one.
    WITH strays AS MATERIALIZED (
        SELECT j.id FROM howdah.live AS j
        WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts
            AND j.order_key IS DISTINCT FROM v_key
        FOR UPDATE SKIP LOCKED
    )
    UPDATE howdah.live AS j SET order_key = v_key, own_write = NOT j.own_write
    FROM strays WHERE j.id = strays.id;
    GET DIAGNOSTICS v_moved = ROW_COUNT;
    IF v_moved > 0 THEN
        PERFORM howdah.notify_workers(ARRAY[p_job_type]);
    END IF;
    -- declare_type has not committed yet: more transactions may begin that do not see the change.
    IF NOT p_declares THEN
        UPDATE howdah.types AS t SET settling = CASE
            WHEN v_running <> '{}' THEN v_running
            -- Locked jobs follow next time.
            WHEN EXISTS (
                SELECT FROM howdah.live AS j
                WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts
                    AND j.order_key IS DISTINCT FROM v_key
            ) THEN ARRAY['none']
        END
        WHERE t.job_type = p_job_type;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.apply_order IS
    'Updates the pending jobs of a type that became ordered, or unordered. Part of declare_type and of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.apply_order FROM PUBLIC;
