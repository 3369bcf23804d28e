-- As get_many.sql, for jobs that have not ended: the view would look into each day of the archive.
SELECT
    id,
    job_type,
    priority,
    status,
    data,
    progress,
    current_stage,
    events_count,
    CASE WHEN status <> 'pending' THEN worker_id END::varchar(100) AS worker_id,
    CASE WHEN status <> 'pending' THEN claimed_at END AS claimed_at,
    created_at,
    started_at,
    NULL::timestamptz AS completed_at,
    attempts,
    max_attempts,
    last_error,
    token,
    run_at,
    first_due_at,
    key,
    order_key,
    timeout,
    deadline_at,
    expires_at,
    lease_until,
    crashes,
    interruptions,
    cancel_requested_at,
    result,
    checkpoint,
    errors,
    retry_policy,
    parent_id,
    workflow_id,
    meta,
    NULL::timestamptz AS finished_at,
    report,
    CASE
        WHEN status = 'running' AND (report ->> 'token')::bigint = token THEN to_timestamp((report ->> 'stalls')::float8)
    END AS stalls_at,
    coalesce(
        status = 'running' AND (report ->> 'token')::bigint = token
        AND to_timestamp((report ->> 'stalls')::float8) < howdah.clock(),
        false
    ) AS stalled
FROM howdah.live
WHERE id = ANY (%(ids)s::uuid[])
