-- Private columns (data, results, errors, keys, ...) are shown to logins that may read the underlying table, and to others as
-- [redacted]. The subquery in SELECT makes PostgreSQL check the right once per column and statement, not once per row.
-- Only functions of PostgreSQL itself: a reader of the view needs the right to call every function in it.
CREATE OR REPLACE VIEW howdah.live_jobs AS
SELECT
    id,
    job_type,
    priority,
    status,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN data
        ELSE '"[redacted]"'
    END AS data,
    progress,
    current_stage,
    events_count,
    worker_id,
    claimed_at,
    created_at,
    started_at,
    completed_at,
    attempts,
    max_attempts,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN last_error
        WHEN last_error IS NOT NULL THEN '[redacted]'
    END AS last_error,
    token,
    run_at,
    first_due_at,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT'))
        THEN coalesce(key, CASE WHEN starts_with(unique_key, 'key:') THEN substr(unique_key, 5) END)
        WHEN key IS NOT NULL OR starts_with(unique_key, 'key:') THEN '[redacted]'
    END AS key,
    order_key,
    timeout,
    deadline_at,
    expires_at,
    lease_until,
    crashes,
    interruptions,
    cancel_requested_at,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN result
        WHEN result IS NOT NULL THEN '"[redacted]"'
    END AS result,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN checkpoint
        WHEN checkpoint IS NOT NULL THEN '"[redacted]"'
    END AS checkpoint,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN errors
        WHEN errors IS NOT NULL THEN (
            SELECT jsonb_agg(
                e.entry || '{"error": "[redacted]"}'
                || CASE WHEN e.entry ? 'traceback' THEN '{"traceback": "[redacted]"}'::jsonb ELSE '{}' END
                ORDER BY e.place
            )
            FROM jsonb_array_elements(CASE WHEN jsonb_typeof(errors) = 'array' THEN errors END) WITH ORDINALITY AS e (entry, place)
            WHERE jsonb_typeof(e.entry) = 'object'
        )
    END AS errors,
    retry_policy,
    parent_id,
    workflow_id,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN meta
        WHEN meta IS NOT NULL THEN '{"redacted": true}'
    END AS meta,
    NULL::timestamptz AS finished_at,
    progress_report,
    CASE
        WHEN status = 'running' AND progress_report -> 'token' = to_jsonb(token) AND progress_report -> 'stalls' >= '1' AND progress_report -> 'stalls' <= '100000000000'
        THEN to_timestamp((progress_report -> 'stalls')::float8)
    END AS stalls_at,
    concat_ws(' ', ctid, xmin) AS version,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN flow_key
        WHEN flow_key <> '' THEN '[redacted]'
        ELSE flow_key
    END AS flow_key,
    cost,
    has_steps AND status = 'pending' AS may_wait,
    node,
    place
FROM howdah.live;
COMMENT ON VIEW howdah.live_jobs IS
    'Jobs that have not ended, as in job_details, without reading the archive. version changes with each change of the job.';
