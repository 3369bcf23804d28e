-- Redacted as live_jobs. How an attempt ended is shown; the text of its error is not.
CREATE OR REPLACE VIEW howdah.event_details AS
SELECT
    stream_no,
    xid,
    at,
    job_id,
    token,
    seq,
    attempt,
    job_type,
    kind,
    name,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN data
        WHEN kind = 'status' AND jsonb_typeof(data) = 'object' THEN data || CASE WHEN data ? 'error' THEN '{"error": "[redacted]"}'::jsonb ELSE '{}' END
        WHEN data IS NOT NULL THEN '"[redacted]"'
    END AS data
FROM howdah.events;
COMMENT ON VIEW howdah.event_details IS 'What happened to jobs: the table events, redacted for roles that may not read all of it.';
