CREATE OR REPLACE FUNCTION howdah.register_worker(
    p_worker_id varchar,
    p_incarnation uuid,
    p_lease interval DEFAULT '15 seconds',
    p_job_types varchar[] DEFAULT NULL,
    p_host text DEFAULT NULL,
    p_pid int DEFAULT NULL,
    p_version text DEFAULT NULL,
    p_capacity int DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_again boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    PERFORM howdah.check_worker_id(p_worker_id);
    PERFORM howdah.check_span(p_lease, 'lease');
    PERFORM howdah.check_meta(p_meta);
    IF p_capacity < 0 THEN
        RAISE EXCEPTION 'capacity is %, and must not be negative', p_capacity USING ERRCODE = 'JQ001';
    ELSIF cardinality(p_job_types) > 100000 THEN
        RAISE EXCEPTION 'job_types has % types; 100000 are allowed', cardinality(p_job_types) USING ERRCODE = 'JQ003';
    ELSIF array_ndims(p_job_types) > 1 OR array_position(p_job_types, NULL) IS NOT NULL THEN
        RAISE EXCEPTION 'job_types must be a list of types, without NULL' USING ERRCODE = 'JQ001';
    END IF;
    INSERT INTO howdah.workers AS w (
        worker_id, incarnation, generation, heartbeat_at, fresh_since, registered_at, lease, started_at, host, pid, version, job_types, capacity,
        running, meta
    )
    VALUES (
        p_worker_id, p_incarnation, nextval('howdah.worker_generations'), howdah.lease_clock(), howdah.lease_clock(), howdah.clock(), p_lease, howdah.clock(), left(p_host, 255), p_pid,
        left(p_version, 255), p_job_types, p_capacity, 0, p_meta
    )
    ON CONFLICT (worker_id) DO UPDATE SET
        incarnation = excluded.incarnation, generation = excluded.generation, heartbeat_at = excluded.heartbeat_at, registered_at = excluded.registered_at, lease = excluded.lease,
        fresh_since = CASE
            WHEN w.incarnation = excluded.incarnation AND w.heartbeat_at >= excluded.heartbeat_at - w.lease / 2 THEN w.fresh_since
            ELSE excluded.fresh_since
        END,
        started_at = CASE WHEN w.incarnation = excluded.incarnation THEN w.started_at ELSE excluded.started_at END,
        host = excluded.host, pid = excluded.pid, version = excluded.version, job_types = excluded.job_types,
        capacity = excluded.capacity, meta = excluded.meta
    -- A worker that was declared dead and comes back must not take its name from a live worker.
    WHERE NOT p_again OR w.incarnation = excluded.incarnation OR w.heartbeat_at < excluded.heartbeat_at - w.lease;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'another worker is registered as %', p_worker_id USING
            ERRCODE = 'JQ006', HINT = 'Give each worker a name of its own.';
    END IF;

    -- A worker that registers holds nothing. Jobs of an earlier process of this name would otherwise never be recovered, because the
    -- name sends heartbeats again.
    PERFORM howdah.release_worker(p_worker_id);
END
$$;
COMMENT ON FUNCTION howdah.register_worker IS
    'Registers a worker: from now on it holds its jobs as long as it sends heartbeats. p_incarnation is new for each start of the process;'
    ' jobs that an earlier incarnation of the same name still held are released at once. p_again: after a loss; refused with SQLSTATE JQ006'
    ' if another live worker has the name.';
REVOKE ALL ON FUNCTION howdah.register_worker FROM PUBLIC;
