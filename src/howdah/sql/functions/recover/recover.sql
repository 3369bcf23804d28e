-- A worker may declare others dead only if its own heartbeats were gap-free for a lease and still are: while the whole database is
-- stalled no worker can send any, and all would seem dead. A sweep that is called by hand always may.
CREATE OR REPLACE FUNCTION howdah.recover(p_limit int DEFAULT 1000, p_worker_id varchar DEFAULT NULL)
RETURNS TABLE (id uuid, status varchar, reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_worker varchar;
    v_cause text;
    v_now timestamptz;
    v_may_judge boolean;
BEGIN
    -- If a heartbeat would have to wait for this table, this waits too, and looks only afterwards.
    LOCK TABLE howdah.workers IN ROW EXCLUSIVE MODE;
    -- The same time for its own heartbeats and for those of others: a stall between two readings would make all seem dead.
    v_now := howdah.lease_clock();
    PERFORM howdah.follow_clock(v_now);
    v_may_judge := p_worker_id IS NULL OR EXISTS (
        SELECT FROM howdah.workers AS w
        WHERE w.worker_id = p_worker_id AND w.heartbeat_at > v_now - w.lease / 2 AND w.fresh_since <= v_now - w.lease
    );

    FOR v_worker IN
        SELECT w.worker_id FROM howdah.workers AS w
        WHERE v_may_judge AND w.heartbeat_at < v_now - w.lease
        ORDER BY w.worker_id
        FOR UPDATE SKIP LOCKED
    LOOP
        RETURN QUERY SELECT * FROM howdah.release_worker(v_worker, p_limit);
        IF EXISTS (SELECT FROM howdah.live AS j WHERE j.worker_id = v_worker AND j.status IN ('claimed', 'running')) THEN
            -- Some of its jobs were locked, or too many for one sweep, and are left to the next one. The worker's heartbeat must fail.
            UPDATE howdah.workers AS w SET incarnation = gen_random_uuid() WHERE w.worker_id = v_worker;
        ELSE
            DELETE FROM howdah.workers AS w WHERE w.worker_id = v_worker;
        END IF;
    END LOOP;

    BEGIN
        PERFORM howdah.sweep_flow();
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'the flow rules of a type could not be applied: %', SQLERRM;
    END;

    BEGIN
        PERFORM howdah.prune_uniques(p_limit * 10::bigint);
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'unique keys could not be removed: %', SQLERRM;
    END;

    BEGIN
        PERFORM howdah.release_held_back(p_limit);
        PERFORM howdah.prune_signals(p_limit);
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'signals could not be delivered or removed: %', SQLERRM;
    END;

    BEGIN
        PERFORM howdah.fold_minutes();
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'the figures of the past could not be merged: %', SQLERRM;
    END;

    FOREACH v_cause IN ARRAY
        ARRAY['worker died', 'lease passed', 'timed out', 'cancel overdue', 'stalled', 'expired', 'no attempts left']
    LOOP
        RETURN QUERY SELECT * FROM howdah.recover_cause(v_cause, p_limit, v_now, v_may_judge);
    END LOOP;

    BEGIN
        PERFORM howdah.advance_workflows(p_limit);
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
            RAISE WARNING 'a workflow could not be advanced: %', SQLERRM;
    END;
END
$$;
COMMENT ON FUNCTION howdah.recover IS
    'The sweep: recovers jobs from dead workers, expired leases and passed deadlines, and stalled jobs if their type has fail_stalled; ends'
    ' jobs that were cancelled, have expired or have no attempts left. Any number may run at once. p_worker_id is the worker that sweeps: it'
    ' declares others dead only after a lease of gap-free heartbeats of its own. p_limit: the highest number of jobs for each reason, and'
    ' for each dead worker; the next call continues. A job whose recovery raises an error is left out, with a warning that names it.'
    ' Returns the changed jobs, and why.';
REVOKE ALL ON FUNCTION howdah.recover FROM PUBLIC;
