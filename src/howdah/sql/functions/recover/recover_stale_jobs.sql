CREATE OR REPLACE FUNCTION howdah.recover_stale_jobs(p_timeout interval) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_recovered int := 0;
    v_changed int;
    v_cause text;
BEGIN
    IF p_timeout IS NULL OR p_timeout < '0' THEN
        RAISE EXCEPTION 'timeout is %, and must not be negative', p_timeout USING ERRCODE = 'JQ001';
    END IF;
    FOREACH v_cause IN ARRAY ARRAY['worker died', 'lease passed'] LOOP
        WITH stale AS MATERIALIZED (
            SELECT j.id, j.token FROM howdah.live AS j
            LEFT JOIN howdah.workers AS w ON w.worker_id = j.worker_id
            WHERE j.status IN ('claimed', 'running') AND CASE v_cause
                WHEN 'worker died' THEN w.heartbeat_at < howdah.lease_clock() - howdah.clamp_interval(greatest(p_timeout, w.lease))
                WHEN 'lease passed' THEN w.worker_id IS NULL AND j.claimed_at < howdah.clock() - howdah.clamp_interval(p_timeout)
            END
            ORDER BY j.id
            FOR UPDATE OF j SKIP LOCKED
        )
        SELECT count(s.id) INTO v_changed
        FROM (SELECT array_agg(stale.id) AS ids, array_agg(stale.token) AS tokens FROM stale) AS o
        CROSS JOIN LATERAL howdah.end_attempt(v_cause, o.ids, o.tokens) AS s;
        v_recovered := v_recovered + v_changed;
    END LOOP;
    RETURN v_recovered;
END
$$;
COMMENT ON FUNCTION howdah.recover_stale_jobs IS
    'Recovers jobs of unregistered holders claimed longer ago than p_timeout, and of workers whose last heartbeat is older'
    ' than that and than their lease; never a job whose worker still sends heartbeats. Returns how many.';
REVOKE ALL ON FUNCTION howdah.recover_stale_jobs FROM PUBLIC;
