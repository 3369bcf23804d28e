CREATE OR REPLACE FUNCTION howdah.heartbeat(
    p_worker_id varchar,
    p_incarnation uuid,
    p_running int DEFAULT NULL,
    p_since_claim interval DEFAULT NULL,
    p_loop_lag interval DEFAULT NULL,
    p_leaked int DEFAULT NULL,
    p_throughput jsonb DEFAULT NULL,
    p_memory bigint DEFAULT NULL
) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    IF p_throughput IS NOT NULL THEN
        PERFORM howdah.check_throughput(p_throughput);
    END IF;
    IF p_memory < 0 THEN
        RAISE EXCEPTION 'memory is %, and cannot be negative', p_memory USING ERRCODE = 'JQ001';
    END IF;
    IF p_running < 0 OR p_leaked < 0 OR p_loop_lag NOT BETWEEN '0' AND '36500 days' OR p_since_claim NOT BETWEEN '0' AND '36500 days' THEN
        RAISE EXCEPTION 'running is %, leaked %, loop_lag % and since_claim %: none may be negative, or longer than a hundred years',
            p_running, p_leaked, p_loop_lag, p_since_claim USING ERRCODE = 'JQ001';
    END IF;
    UPDATE howdah.workers AS w SET
        heartbeat_at = howdah.lease_clock(),
        fresh_since = CASE
            WHEN w.fresh_since IS NULL OR w.heartbeat_at < howdah.lease_clock() - w.lease / 2 THEN howdah.lease_clock()
            -- Not in the future, if the clock went back: see follow_clock.
            ELSE least(w.fresh_since, howdah.lease_clock())
        END,
        running = coalesce(p_running, w.running),
        last_claim_at = coalesce(howdah.lease_clock() - p_since_claim, w.last_claim_at),
        loop_lag = coalesce(p_loop_lag, w.loop_lag),
        leaked = coalesce(p_leaked, w.leaked),
        throughput = coalesce(p_throughput, w.throughput),
        meta = CASE WHEN p_memory IS NULL THEN w.meta ELSE coalesce(w.meta, '{}') || jsonb_build_object('memory', p_memory) END
    WHERE w.worker_id = p_worker_id AND w.incarnation = p_incarnation;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.heartbeat IS
    'Renews the lease of a worker, and records its state: how many jobs it runs, how long ago it last claimed, the lag of its event loop, how'
    ' many threads it had to abandon, its throughput (see workers.throughput), and the bytes of memory that it uses (in meta). False if it was declared dead, or another process has'
    ' its name: it no longer holds its jobs.';
REVOKE ALL ON FUNCTION howdah.heartbeat FROM PUBLIC;
