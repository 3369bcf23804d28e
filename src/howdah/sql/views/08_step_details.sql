-- Redacted as live_jobs: results, and the keys of signals, which are in the names of their steps.
CREATE OR REPLACE VIEW howdah.step_details AS
SELECT
    job_id,
    CASE
        WHEN coalesce(key, '') = '' OR (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN name
        ELSE format('signal:%s:[redacted]', signal)
    END AS name,
    kind,
    state,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN result
        WHEN result IS NOT NULL THEN '"[redacted]"'
    END AS result,
    attempt,
    token,
    begun_at,
    done_at,
    signal,
    CASE
        WHEN key = '' OR (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN nullif(key, '')
        WHEN key IS NOT NULL THEN '[redacted]'
    END AS key,
    until
FROM howdah.steps;
COMMENT ON VIEW howdah.step_details IS 'What attempts of jobs have done already, and what they wait for: the table steps, redacted for roles that may not read all of it.';
