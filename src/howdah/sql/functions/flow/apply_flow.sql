-- A transaction from before a type got flow keys or an order may add or release jobs the old way, and commit at any later time. A lock on
-- the table of jobs until it ends would block every producer behind one idle transaction. So the type changes at once, and its jobs
-- follow, some thousand at a time, until the last of those transactions has ended. Meanwhile a job without its flow_key is not claimed, as
-- if it were committed a little later.
CREATE OR REPLACE FUNCTION howdah.apply_flow(p_job_type varchar, p_declares boolean DEFAULT false) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_type howdah.types;
    v_before text[];
    v_running text[];
    v_moved bigint;
    v_began float8 := extract(epoch FROM clock_timestamp());
BEGIN
    -- A sweep that finds the row locked leaves the type to the next one.
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = p_job_type AND t.settling IS NOT NULL
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_before := v_type.settling;
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
        ORDER BY virtualtransaction
    );
    -- Held jobs get their order_key when they are released: several may be held now, and an order allows one. Their flow_key counts at once.
    UPDATE howdah.live AS j SET
        flow_key = howdah.flow_key_of(v_type.keyed, v_type.per, j.data, NULL), own_write = NOT j.own_write
    WHERE v_type.keyed AND j.id = ANY (ARRAY(
        SELECT h.id FROM howdah.live AS h
        WHERE h.status IN ('claimed', 'running') AND h.job_type = p_job_type AND h.flow_key IS NULL
        FOR UPDATE SKIP LOCKED
    ));
    WITH strays AS MATERIALIZED (
        SELECT j.id, howdah.flow_key_of(v_type.keyed, v_type.per, j.data, CASE WHEN v_type.keyed THEN nullif(j.flow_key, '') END) AS flow_key
        FROM howdah.live AS j
        WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts AND howdah.is_stray(v_type, j)
        LIMIT 5000
        FOR UPDATE SKIP LOCKED
    )
    UPDATE howdah.live AS j SET
        flow_key = strays.flow_key, order_key = CASE WHEN v_type.ordered THEN strays.flow_key END,
        line = howdah.line_of(strays.flow_key, j.run_at), own_write = NOT j.own_write
    FROM strays WHERE j.id = strays.id;
    GET DIAGNOSTICS v_moved = ROW_COUNT;
    IF v_moved > 0 THEN
        PERFORM howdah.notify_workers(ARRAY[p_job_type]);
    END IF;
    -- For settle_flow: when all jobs were looked at in vain, and how long that took.
    PERFORM set_config('jobqueue.settled', CASE
        WHEN v_moved = 0 THEN ARRAY[extract(epoch FROM clock_timestamp()), extract(epoch FROM clock_timestamp()) - v_began]::text ELSE ''
    END, false);
    -- declare_type has not committed yet: more transactions may begin that do not see the change.
    IF NOT p_declares THEN
        v_type.settling := CASE
            WHEN v_running <> '{}' THEN v_running
            WHEN NOT howdah.forget_held_from(p_job_type) THEN ARRAY['none']
            -- Locked jobs, and those beyond the limit, follow next time.
            WHEN EXISTS (
                SELECT FROM howdah.live AS j
                WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts AND howdah.is_stray(v_type, j)
            ) THEN ARRAY['none']
        END;
        -- An old transaction keeps each version of a row that every enqueue reads: it must not get one more with each claim.
        UPDATE howdah.types AS t SET settling = v_type.settling WHERE t.job_type = p_job_type AND v_type.settling IS DISTINCT FROM v_before;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.apply_flow IS
    'Gives the jobs of a type whose rules have changed their flow keys and their order. Part of declare_type, of claim and of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.apply_flow FROM PUBLIC;
