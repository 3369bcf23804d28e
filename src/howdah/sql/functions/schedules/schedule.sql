CREATE OR REPLACE FUNCTION howdah.schedule(
    p_name varchar,
    p_job_type varchar,
    p_data jsonb DEFAULT '{}',
    p_cron text DEFAULT NULL,
    p_every interval DEFAULT NULL,
    p_timezone text DEFAULT 'UTC',
    p_missed text DEFAULT 'last',
    p_overlap boolean DEFAULT true,
    p_priority int DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_next_run_at timestamptz DEFAULT NULL
) RETURNS TABLE (
    name varchar, job_type varchar, data jsonb, cron text, every interval, timezone text, missed text, overlap boolean,
    priority int, max_attempts int, timeout interval, retry_policy jsonb, next_run_at timestamptz, last_run_at timestamptz,
    last_job_id uuid, paused_at timestamptz, created_at timestamptz, created boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
AS $$
#variable_conflict use_column
DECLARE
    -- In seconds alone: days and months vary in length, so they cannot be counted from a start.
    v_every interval := make_interval(secs => extract(epoch FROM p_every)::double precision);
    v_created boolean;
BEGIN
    PERFORM howdah.check_schedule(p_name, p_cron, v_every, p_missed, p_timezone, p_next_run_at);
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, NULL, p_timeout, p_retry_policy);
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(ARRAY[p_data], 'data');
    END IF;
    INSERT INTO howdah.schedules AS s (
        name, job_type, data, cron, every, timezone, missed, overlap, priority, max_attempts, timeout, retry_policy,
        next_run_at, next_run_known, created_at, changed_at
    ) VALUES (
        p_name, p_job_type, coalesce(p_data, '{}'), p_cron, v_every, coalesce(p_timezone, 'UTC'),
        coalesce(p_missed, 'last'), coalesce(p_overlap, true), p_priority, p_max_attempts, p_timeout, p_retry_policy,
        coalesce(p_next_run_at, howdah.clock() + v_every, howdah.clock()),
        p_next_run_at IS NOT NULL OR v_every IS NOT NULL, howdah.clock(), howdah.clock()
    )
    ON CONFLICT (name) DO UPDATE SET
        job_type = excluded.job_type, data = excluded.data, cron = excluded.cron, every = excluded.every,
        timezone = excluded.timezone, missed = excluded.missed, overlap = excluded.overlap,
        priority = excluded.priority, max_attempts = excluded.max_attempts, timeout = excluded.timeout,
        retry_policy = excluded.retry_policy, changed_at = excluded.changed_at,
        next_run_at = CASE
            WHEN (s.cron, s.every, s.timezone) IS DISTINCT FROM (excluded.cron, excluded.every, excluded.timezone)
                THEN excluded.next_run_at
            ELSE s.next_run_at
        END,
        next_run_known = CASE
            WHEN (s.cron, s.every, s.timezone) IS DISTINCT FROM (excluded.cron, excluded.every, excluded.timezone)
                THEN excluded.next_run_known
            ELSE s.next_run_known
        END
    -- Every worker with this schedule in its code calls this when it starts: an unchanged schedule is not written.
    WHERE (
        s.job_type, s.data, s.cron, s.every, s.timezone, s.missed, s.overlap, s.priority, s.max_attempts, s.timeout,
        s.retry_policy
    ) IS DISTINCT FROM (
        excluded.job_type, excluded.data, excluded.cron, excluded.every, excluded.timezone, excluded.missed,
        excluded.overlap, excluded.priority, excluded.max_attempts, excluded.timeout, excluded.retry_policy
    )
    -- For a row that existed before, xmax is the lock of its update.
    RETURNING s.xmax = 0 INTO v_created;

    RETURN QUERY
    SELECT
        s.name, s.job_type, s.data, s.cron, s.every, s.timezone, s.missed, s.overlap, s.priority, s.max_attempts,
        s.timeout, s.retry_policy, CASE WHEN s.next_run_known THEN s.next_run_at END, s.last_run_at, s.last_job_id, s.paused_at,
        s.created_at, coalesce(v_created, false)
    FROM howdah.schedules AS s WHERE s.name = p_name;
END
$$;
COMMENT ON FUNCTION howdah.schedule IS
    'Creates a schedule, or changes the one of this name. p_next_run_at is its first run: after p_every if it is not given; with p_cron, a'
    ' worker computes it. If cron, every and timezone do not change, neither do next and last run.';
REVOKE ALL ON FUNCTION howdah.schedule FROM PUBLIC;
