-- One window of the jobs, newest first. Conditions that an index supports (id, status) limit the window; all others filter inside of
-- it. Large columns are fetched only on request, and then only as many as fit into a page: is_last marks the last row that fits.
SELECT
    id, job_type, priority, status, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
    completed_at, attempts, max_attempts, token, run_at, first_due_at, key, flow_key, cost, order_key, timeout, deadline_at, expires_at,
    lease_until, crashes, interruptions, cancel_requested_at, retry_policy, parent_id, workflow_id, node, finished_at, progress_report,
    CASE WHEN may_wait THEN howdah.wait_in_words(id, token) END AS waits_for,
    CASE WHEN %(whole)s::boolean THEN data END AS data,
    CASE WHEN %(whole)s::boolean THEN result END AS result,
    CASE WHEN %(whole)s::boolean THEN checkpoint END AS checkpoint,
    CASE WHEN %(whole)s::boolean THEN errors END AS errors,
    CASE
        WHEN %(whole)s::boolean THEN meta
        WHEN meta OPERATOR(pg_catalog.?) 'task' THEN pg_catalog.jsonb_build_object('task', meta OPERATOR(pg_catalog.->) 'task')
        -- A job of a schedule of Django.
        WHEN pg_catalog.pg_column_size(data) OPERATOR(pg_catalog.<) 2000 AND data OPERATOR(pg_catalog.?&) '{task,args,kwargs}'::pg_catalog.text[]
            THEN pg_catalog.jsonb_build_object('task', data OPERATOR(pg_catalog.->) 'task')
    END AS meta,
    CASE WHEN %(whole)s::boolean THEN last_error ELSE pg_catalog.left(last_error, 10000) END AS last_error,
    coalesce(stalls_at OPERATOR(pg_catalog.<) howdah.clock(), false) AS stalled,
    bytes OPERATOR(pg_catalog.>=) %(most_bytes)s::bigint AS is_last,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM (
    SELECT *, CASE WHEN %(whole)s::boolean THEN pg_catalog.sum(size) OVER (ORDER BY id DESC) ELSE 0 END AS bytes
    FROM (
        SELECT *, (
            SELECT pg_catalog.sum(pg_catalog.pg_column_size(large.value)) FROM (VALUES (data), (result), (checkpoint), (errors)) AS large (value)
        ) AS size
        FROM (
            SELECT * FROM howdah.job_details
            WHERE (%(before)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid)
                AND (%(statuses)s::pg_catalog.text[] IS NULL OR status OPERATOR(pg_catalog.=) ANY (%(statuses)s::pg_catalog.text[]))
            ORDER BY id DESC
            LIMIT %(window)s::int
        ) AS seen
        WHERE (%(job_types)s::pg_catalog.text[] IS NULL OR job_type OPERATOR(pg_catalog.=) ANY (%(job_types)s::pg_catalog.text[]))
            AND (%(flow_key)s::pg_catalog.text IS NULL OR flow_key OPERATOR(pg_catalog.=) %(flow_key)s::pg_catalog.text)
            AND (%(least_priority)s::int IS NULL OR priority OPERATOR(pg_catalog.>=) %(least_priority)s::int)
            AND (%(most_priority)s::int IS NULL OR priority OPERATOR(pg_catalog.<=) %(most_priority)s::int)
            AND (%(since)s::pg_catalog.timestamptz IS NULL OR created_at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz)
            AND (%(until)s::pg_catalog.timestamptz IS NULL OR created_at OPERATOR(pg_catalog.<) %(until)s::pg_catalog.timestamptz)
            AND (NOT %(stalled)s::boolean OR stalls_at OPERATOR(pg_catalog.<) howdah.clock())
            AND (%(data)s::pg_catalog.jsonb IS NULL OR data OPERATOR(pg_catalog.@>) %(data)s::pg_catalog.jsonb)
        LIMIT %(limit)s::int
    ) AS found
) AS fitting
WHERE (bytes OPERATOR(pg_catalog.-) size) OPERATOR(pg_catalog.<) %(most_bytes)s::bigint OR NOT %(whole)s::boolean
ORDER BY id DESC
