CREATE OR REPLACE FUNCTION howdah.declare_type(
    p_job_type varchar,
    p_ordered boolean DEFAULT false,
    p_pause_on_failure boolean DEFAULT false,
    p_priority int DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_in interval DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_max_crashes int DEFAULT NULL,
    p_fail_stalled boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_flips boolean := p_ordered IS DISTINCT FROM coalesce(
        (SELECT t.ordered FROM howdah.types AS t WHERE t.job_type = p_job_type), false
    );
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, p_expires_in, p_timeout, p_retry_policy);
    IF v_flips THEN
        -- Whoever adds a job right now has looked at the type before: its job is waited for, and found. Before
        -- the type's own row, because whoever ends a job comes from there.
        LOCK TABLE howdah.live IN SHARE ROW EXCLUSIVE MODE;
    END IF;
    INSERT INTO howdah.types AS t (
        job_type, ordered, pause_on_failure, priority, max_attempts, timeout, expires_in, retry_policy, max_crashes,
        fail_stalled, declared_at
    ) VALUES (
        p_job_type, p_ordered, p_pause_on_failure, p_priority, p_max_attempts, p_timeout, p_expires_in, p_retry_policy,
        p_max_crashes, p_fail_stalled, howdah.clock()
    )
    ON CONFLICT (job_type) DO UPDATE SET
        ordered = excluded.ordered, pause_on_failure = excluded.pause_on_failure, priority = excluded.priority,
        max_attempts = excluded.max_attempts, timeout = excluded.timeout, expires_in = excluded.expires_in,
        retry_policy = excluded.retry_policy, max_crashes = excluded.max_crashes,
        fail_stalled = excluded.fail_stalled, declared_at = excluded.declared_at
    -- Every worker declares its types when it starts: what does not change is not written.
    WHERE (
        t.ordered, t.pause_on_failure, t.priority, t.max_attempts, t.timeout, t.expires_in, t.retry_policy, t.max_crashes,
        t.fail_stalled
    ) IS DISTINCT FROM (
        excluded.ordered, excluded.pause_on_failure, excluded.priority, excluded.max_attempts, excluded.timeout,
        excluded.expires_in, excluded.retry_policy, excluded.max_crashes, excluded.fail_stalled
    );
    IF v_flips THEN
        -- Held jobs follow when they come back: two of them would break the promise of one lease before it is made.
        UPDATE howdah.live AS j SET order_key = CASE WHEN p_ordered THEN '' END, own_write = NOT j.own_write
        WHERE j.job_type = p_job_type AND j.status = 'pending';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.declare_type IS
    'Says how jobs of a type are to be treated where the job itself does not say. Workers call it when they start.';
REVOKE ALL ON FUNCTION howdah.declare_type FROM PUBLIC;
