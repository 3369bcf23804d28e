-- Jobs without their large columns.
SELECT
    id, job_type, priority, status, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
    completed_at, attempts, max_attempts, token, run_at, first_due_at, key, flow_key, cost, order_key, timeout, deadline_at, expires_at,
    lease_until, crashes, interruptions, cancel_requested_at, retry_policy, parent_id, workflow_id, finished_at, progress_report,
    NULL::pg_catalog.jsonb AS data, NULL::pg_catalog.jsonb AS result, NULL::pg_catalog.jsonb AS checkpoint, NULL::pg_catalog.jsonb AS errors,
    NULL::pg_catalog.jsonb AS meta,
    pg_catalog.left(last_error, 300) AS last_error,
    coalesce(stalls_at OPERATOR(pg_catalog.<) howdah.clock(), false) AS stalled,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.job_details
WHERE id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
