-- Redacted as live_jobs: what selects jobs by their contents, and what operators wrote into jobs.
CREATE OR REPLACE VIEW howdah.audit_details AS
SELECT
    a.number,
    a.at,
    a.visitor,
    a.login,
    a.action,
    CASE
        WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) THEN a.target
        WHEN jsonb_typeof(a.target) <> 'object' THEN '"[redacted]"'
        ELSE (
            SELECT coalesce(jsonb_object_agg(
                t.key,
                CASE
                    WHEN t.key IN ('path', 'error', 'key', 'per', 'reason', 'data') THEN '"[redacted]"'
                    -- What is nested may have any keys.
                    WHEN t.key <> 'filter' THEN
                        CASE WHEN jsonb_path_exists(t.value, '$.** ? (@.type() == "object")') THEN '"[redacted]"' ELSE t.value END
                    WHEN jsonb_typeof(t.value) <> 'object' THEN '"[redacted]"'
                    ELSE (
                        SELECT coalesce(jsonb_object_agg(
                            f.key, CASE
                                WHEN f.key IN ('path', 'error', 'key', 'per', 'reason', 'data')
                                    OR jsonb_path_exists(f.value, '$.** ? (@.type() == "object")') THEN '"[redacted]"'
                                ELSE f.value
                            END
                        ), '{}')
                        FROM jsonb_each(t.value) AS f
                    )
                END
            ), '{}')
            FROM jsonb_each(a.target) AS t
        )
    END AS target,
    a.jobs,
    a.outcome
FROM howdah.audit AS a;
COMMENT ON VIEW howdah.audit_details IS
    'The table audit. For roles that may not read all of jobs, the values of path, error, key, per, reason and data in target are redacted, and'
    ' objects in others than filter.';
