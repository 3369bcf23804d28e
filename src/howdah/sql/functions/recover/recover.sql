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

    PERFORM howdah.apply_order(t.job_type) FROM howdah.types AS t WHERE t.settling IS NOT NULL;

    FOREACH v_cause IN ARRAY ARRAY['worker died', 'lease passed', 'timed out', 'cancel overdue', 'stalled'] LOOP
        RETURN QUERY
        WITH overdue AS MATERIALIZED (
            SELECT j.id, j.token FROM howdah.live AS j
            WHERE j.status IN ('claimed', 'running') AND CASE v_cause
                -- A claim that was in progress while its worker was declared dead, or restarted.
                WHEN 'worker died' THEN v_may_judge AND j.lease_until IS NULL AND NOT EXISTS (
                    SELECT FROM howdah.workers AS w
                    WHERE w.worker_id = j.worker_id AND w.generation = coalesce(j.generation, w.generation)
                )
                WHEN 'lease passed' THEN j.lease_until < howdah.lease_clock()
                -- A job that was added before its type had a timeout has no deadline of its own.
                WHEN 'timed out' THEN j.status = 'running' AND coalesce(
                    j.deadline_at,
                    j.started_at + (SELECT howdah.clamp_interval(t.timeout) FROM howdah.types AS t WHERE t.job_type = j.job_type)
                ) < howdah.clock()
                WHEN 'cancel overdue' THEN j.status = 'running' AND j.cancel_requested_at
                    < howdah.clock() - (SELECT howdah.clamp_interval(s.cancel_grace) FROM howdah.settings AS s)
                WHEN 'stalled' THEN v_may_judge AND j.status = 'running' AND j.progress_report -> 'token' = to_jsonb(j.token)
                    AND howdah.number_in(j.progress_report -> 'stalls') < extract(epoch FROM howdah.clock())
                    AND EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = j.job_type AND t.fail_stalled)
                    -- Its reports may not have arrived: its worker was out of touch, or its event loop is blocked.
                    AND NOT EXISTS (
                        SELECT FROM howdah.workers AS w WHERE w.worker_id = j.worker_id AND (
                            coalesce(extract(epoch FROM v_now - w.fresh_since)
                                < extract(epoch FROM howdah.clock()) - howdah.number_in(j.progress_report -> 'at'), true)
                            OR w.loop_lag > interval '5 seconds'
                        )
                    )
            END
            -- Unordered: in the order of ids, the plan would read all jobs if the statistics say that most are held.
            LIMIT p_limit
            FOR UPDATE SKIP LOCKED
        )
        SELECT s.id, s.status, coalesce(s.reason, v_cause)
        FROM (SELECT array_agg(overdue.id) AS ids, array_agg(overdue.token) AS tokens FROM overdue) AS o
        CROSS JOIN LATERAL howdah.end_attempt(v_cause, o.ids, o.tokens) AS s;
    END LOOP;

    RETURN QUERY
    WITH ending AS MATERIALIZED (
        SELECT j.id, 'cancelled'::varchar AS status, 'expired'::text AS reason
        FROM howdah.live AS j
        WHERE j.status = 'pending' AND j.expires_at IS NOT NULL AND j.expires_at <= howdah.clock()
        ORDER BY j.expires_at LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), ended AS MATERIALIZED (
        SELECT howdah.archive_jobs(array_agg(e.id), array_agg(e.status), array_agg(e.reason), p_cause => 'expired')
        FROM ending AS e HAVING count(*) > 0
    )
    SELECT ending.* FROM ending WHERE EXISTS (SELECT FROM ended);

    RETURN QUERY
    WITH ending AS MATERIALIZED (
        SELECT j.id, 'failed'::varchar AS status, coalesce(j.last_error, 'no attempts left') AS error
        FROM howdah.live AS j
        WHERE j.status = 'pending' AND j.attempts >= j.max_attempts
        ORDER BY j.id LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), ended AS MATERIALIZED (
        SELECT howdah.archive_jobs(array_agg(e.id), array_agg(e.status), array_agg(e.error), p_cause => 'no attempts left')
        FROM ending AS e HAVING count(*) > 0
    )
    -- The caller may lack the right to read errors.
    SELECT ending.id, ending.status, 'no attempts left'::text FROM ending WHERE EXISTS (SELECT FROM ended);
END
$$;
COMMENT ON FUNCTION howdah.recover IS
    'The sweep: recovers jobs from dead workers, expired leases and passed deadlines, and stalled jobs if their type has fail_stalled; ends'
    ' jobs that were cancelled, have expired or have no attempts left. Any number may run at once. p_worker_id is the worker that sweeps: it'
    ' declares others dead only after a lease of gap-free heartbeats of its own. p_limit: the highest number of jobs for each reason, and'
    ' for each dead worker; the next call continues. Returns the changed jobs, and why.';
REVOKE ALL ON FUNCTION howdah.recover FROM PUBLIC;
