-- Redacted as live_jobs.
CREATE OR REPLACE VIEW howdah.workflow_details AS
SELECT
    w.id,
    w.name,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN w.key
        WHEN w.key IS NOT NULL THEN '[redacted]'
    END AS key,
    w.status,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN w.data
        WHEN w.data IS NOT NULL THEN '"[redacted]"'
    END AS data,
    w.result_node,
    w.created_at,
    w.started_at,
    w.finished_at,
    w.deadline_at,
    w.expires_at,
    w.cancel_requested_at,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN w.cancel_reason
        WHEN w.cancel_reason IS NOT NULL THEN '[redacted]'
    END AS cancel_reason,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN w.error
        -- Texts of Howdah. Anything else is the reason of a caller, whatever cancel_reason is by now: see cancel_workflow.
        WHEN w.cancel_requested_at IS NULL
            OR w.error IN ('its deadline has passed', 'it is older than its maximum age', 'it was never started', 'its jobs were removed by TRUNCATE', 'cancelled')
        THEN w.error
        WHEN w.error IS NOT NULL THEN '[redacted]'
    END AS error,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN w.meta
        WHEN w.meta IS NOT NULL THEN '{"redacted": true}'
    END AS meta,
    c.remaining,
    c.completed,
    c.failed,
    c.cancelled
FROM howdah.workflows AS w
-- At most 16 rows, however many jobs there are. LEFT: where the counts are not asked for, they are not read.
LEFT JOIN LATERAL (
    SELECT
        coalesce(sum(s.remaining), 0) AS remaining, coalesce(sum(s.completed), 0) AS completed, coalesce(sum(s.failed), 0) AS failed,
        coalesce(sum(s.cancelled), 0) AS cancelled
    FROM howdah.workflow_counts AS s WHERE s.workflow_id = w.id AND s.node = 0
) AS c ON true;
COMMENT ON VIEW howdah.workflow_details IS 'Every workflow, and how many of its jobs have not ended, and how the others have.';
