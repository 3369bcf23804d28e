-- The columns that a worker always reads come first. Rows are short, because there are many: a value that is the same after every claim
-- of a registered worker is left out, one that usually equals another column is sent only if it differs, and those that few jobs have
-- share one column.
SELECT
    id,
    token,
    job_type,
    priority,
    status,
    crashes,
    timeout,
    CASE WHEN pg_catalog.isfinite(run_at) THEN pg_catalog.date_part('epoch', claimed_at OPERATOR(pg_catalog.-) run_at) ELSE 0 END AS due_for,
    data,
    run_at,
    claimed_at,
    attempts,
    max_attempts,
    CASE WHEN created_at OPERATOR(pg_catalog.<>) run_at THEN created_at END AS created_at,
    CASE WHEN first_due_at OPERATOR(pg_catalog.<>) run_at THEN first_due_at END AS first_due_at,
    CASE
        WHEN events_count OPERATOR(pg_catalog.>) 0 OR interruptions OPERATOR(pg_catalog.>) 0 OR pg_catalog.num_nonnulls(
            last_error, key, flow_key, order_key, deadline_at, expires_at, cancel_requested_at, checkpoint, errors, retry_policy,
            parent_id, workflow_id, meta, unique_key, progress_report, has_steps
        ) OPERATOR(pg_catalog.>) 0
        THEN pg_catalog.jsonb_build_object(
            'events_count', events_count,
            'interruptions', interruptions,
            'last_error', last_error,
            'key', coalesce(key, CASE WHEN pg_catalog.starts_with(unique_key, 'key:') THEN pg_catalog.substr(unique_key, 5) END),
            'flow_key', flow_key,
            'order_key', order_key,
            'deadline_at', deadline_at,
            'expires_at', expires_at,
            'cancel_requested_at', cancel_requested_at,
            'checkpoint', checkpoint,
            'errors', errors,
            'retry_policy', retry_policy,
            'parent_id', parent_id,
            'workflow_id', workflow_id,
            'node', node,
            'inputs', inputs,
            'meta', meta,
            'progress_report', progress_report,
            'has_steps', has_steps
        )
    END AS rare
FROM howdah.claim(
    p_worker_id => %(worker_id)s,
    p_job_types => %(job_types)s,
    p_batch_size => %(batch_size)s,
    p_start => %(start)s,
    p_cursor_types => %(cursor_types)s,
    p_cursor_priorities => %(cursor_priorities)s,
    p_cursor_run_ats => %(cursor_run_ats)s,
    p_cursor_ids => %(cursor_ids)s,
    p_incarnation => %(incarnation)s,
    p_limits => %(limits)s,
    p_oldest => %(oldest)s,
    p_include_crashed => %(include_crashed)s,
    p_prefetch_types => %(prefetch_types)s,
    p_start_ahead => %(start_ahead)s,
    p_lazily => %(lazily)s
)
