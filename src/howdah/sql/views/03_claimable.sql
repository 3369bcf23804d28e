-- Only functions of PostgreSQL's own: see live_jobs. By one table, so that its rows can be locked. By the time of the statement,
-- because a transaction that is open for long sees what was added since it began.
CREATE OR REPLACE VIEW howdah.claimable AS
SELECT
    id,
    job_type,
    priority,
    status,
    data,
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
    last_error
FROM howdah.live AS j
WHERE status = 'pending' AND attempts < max_attempts AND run_at <= statement_timestamp() AND (expires_at IS NULL OR expires_at > statement_timestamp())
    AND NOT EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = j.job_type AND t.paused_at IS NOT NULL)
    -- Of an ordered type, the first that was due, if none is held.
    AND (order_key IS NULL OR (
        id = (
            SELECT o.id FROM howdah.live AS o
            WHERE o.job_type = j.job_type AND o.order_key = j.order_key AND o.first_due_at <= statement_timestamp()
            ORDER BY o.priority DESC, o.first_due_at, o.id
            LIMIT 1
        )
        AND NOT EXISTS (
            SELECT FROM howdah.live AS h WHERE h.job_type = j.job_type AND h.status IN ('claimed', 'running')
        )
    ));
COMMENT ON VIEW howdah.claimable IS
    'The pending jobs that may be claimed now, in the columns of jobs: due, and of a type that is neither paused nor busy in its order. For a'
    ' loop of one''s own: SELECT ... FROM claimable ... FOR UPDATE SKIP LOCKED, then UPDATE jobs.';
