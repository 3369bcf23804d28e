CREATE OR REPLACE VIEW howdah.jobs AS
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
FROM howdah.job_details;
COMMENT ON VIEW howdah.jobs IS 'Every job, live or archived, in the columns that plain SQL clients know.';
