-- It has no search_path of its own, so that the planner can inline it: then the very statement that adds the jobs reads the settings
-- of the type, after it got its lock. See declare_type.
CREATE OR REPLACE FUNCTION howdah.with_type_defaults(
    p_job_type varchar,
    p_priority int,
    p_run_at timestamptz,
    p_delay interval,
    p_max_attempts int,
    p_timeout interval,
    p_expires_at timestamptz,
    p_expires_in interval,
    p_retry_policy jsonb
) RETURNS TABLE (
    priority int, run_at timestamptz, max_attempts int, timeout interval, expires_at timestamptz, retry_policy jsonb,
    keyed boolean, per text, ordered boolean, bounded boolean
)
LANGUAGE sql STABLE
AS $$
    SELECT
        coalesce(p_priority, t.priority, 100),
        due.at,
        coalesce(p_max_attempts, t.max_attempts, 3),
        coalesce(p_timeout, t.timeout),
        coalesce(p_expires_at, due.at + coalesce(p_expires_in, t.expires_in)),
        coalesce(p_retry_policy, t.retry_policy),
        t.keyed,
        t.per,
        t.ordered,
        coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL
    FROM (SELECT coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock()) AS at) AS due
    LEFT JOIN howdah.types AS t ON t.job_type = p_job_type
$$;
COMMENT ON FUNCTION howdah.with_type_defaults IS
    'The options of a new job; those that are not given come from its type. Internal.';
REVOKE ALL ON FUNCTION howdah.with_type_defaults FROM PUBLIC;
