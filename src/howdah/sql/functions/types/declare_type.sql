-- Unchanged settings are not written, and wait for no lock: every worker declares its types when it starts. A change waits only for the
-- row of the type, and not long: an operator may hold it in an open transaction.
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
SET lock_timeout = '200ms'
AS $$
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, p_expires_in, p_timeout, p_retry_policy);
    IF EXISTS (
        SELECT FROM howdah.types AS t
        WHERE t.job_type = p_job_type AND t.declared_at IS NOT NULL AND (
            t.ordered, t.pause_on_failure, t.priority, t.max_attempts, t.timeout, t.expires_in, t.retry_policy, t.max_crashes,
            t.fail_stalled
        ) IS NOT DISTINCT FROM (
            p_ordered, p_pause_on_failure, p_priority, p_max_attempts, p_timeout, p_expires_in, p_retry_policy, p_max_crashes,
            p_fail_stalled
        )
    ) THEN
        RETURN;
    END IF;
    INSERT INTO howdah.types AS t (
        job_type, ordered, pause_on_failure, priority, max_attempts, timeout, expires_in, retry_policy, max_crashes,
        fail_stalled, declared_at, settling
    ) VALUES (
        p_job_type, p_ordered, p_pause_on_failure, p_priority, p_max_attempts, p_timeout, p_expires_in, p_retry_policy,
        p_max_crashes, p_fail_stalled, howdah.clock(), CASE WHEN p_ordered THEN '{}'::text[] END
    )
    ON CONFLICT (job_type) DO UPDATE SET
        ordered = excluded.ordered, pause_on_failure = excluded.pause_on_failure, priority = excluded.priority,
        max_attempts = excluded.max_attempts, timeout = excluded.timeout, expires_in = excluded.expires_in,
        retry_policy = excluded.retry_policy, max_crashes = excluded.max_crashes,
        fail_stalled = excluded.fail_stalled, declared_at = excluded.declared_at,
        settling = CASE WHEN t.ordered IS DISTINCT FROM excluded.ordered THEN '{}' ELSE t.settling END;
    PERFORM howdah.apply_order(p_job_type, p_declares => true);
END
$$;
COMMENT ON FUNCTION howdah.declare_type IS
    'Sets the defaults and rules for jobs of a type. Workers call it when they start.';
REVOKE ALL ON FUNCTION howdah.declare_type FROM PUBLIC;
