CREATE OR REPLACE FUNCTION howdah.declare_type(
    p_job_type varchar,
    p_ordered boolean DEFAULT false,
    p_pause_on_failure boolean DEFAULT false,
    p_priority int DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_in interval DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_max_crashes int DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE
AS $$
DECLARE
    v_was_ordered boolean;
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, p_expires_in, p_timeout, p_retry_policy);
    INSERT INTO howdah.types AS t (job_type) VALUES (p_job_type) ON CONFLICT DO NOTHING;
    SELECT t.ordered INTO v_was_ordered FROM howdah.types AS t WHERE t.job_type = p_job_type FOR UPDATE;

    UPDATE howdah.types AS t SET
        ordered = p_ordered, pause_on_failure = p_pause_on_failure, priority = p_priority,
        max_attempts = p_max_attempts, timeout = p_timeout, expires_in = p_expires_in,
        retry_policy = p_retry_policy, max_crashes = p_max_crashes, declared_at = howdah.clock()
    WHERE t.job_type = p_job_type
        AND (t.ordered, t.pause_on_failure, t.priority, t.max_attempts, t.timeout, t.expires_in, t.retry_policy, t.max_crashes)
        IS DISTINCT FROM
        (p_ordered, p_pause_on_failure, p_priority, p_max_attempts, p_timeout, p_expires_in, p_retry_policy, p_max_crashes);

    IF p_ordered IS DISTINCT FROM v_was_ordered THEN
        -- Whoever adds a job right now has looked at the type before: its job is waited for, and found.
        LOCK TABLE howdah.live IN SHARE ROW EXCLUSIVE MODE;
        -- Held jobs follow when they come back: two of them would break the promise of one lease before it is made.
        UPDATE howdah.live AS j SET order_key = CASE WHEN p_ordered THEN '' END
        WHERE j.job_type = p_job_type AND j.status = 'pending';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.declare_type IS
    'Says how jobs of a type are to be treated where the job itself does not say. Workers call it when they start.';
REVOKE ALL ON FUNCTION howdah.declare_type FROM PUBLIC;
