-- Redacted as live_jobs is. How an attempt ended stays; why, in the words of an error, does not.
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
COMMENT ON VIEW howdah.event_details IS 'What happened to jobs: the table events, for those who may not see all of it.';
