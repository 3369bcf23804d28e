-- A sleep is over when its moment has passed, whether or not an attempt has noted that.
SELECT
    name,
    kind,
    CASE WHEN is_over THEN 'done' ELSE state END AS state,
    result,
    attempt,
    begun_at,
    CASE WHEN is_over AND done_at IS NULL THEN until ELSE done_at END AS done_at,
    signal,
    key,
    until,
    NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT') AS is_redacted
FROM (
    SELECT
        *,
        kind OPERATOR(pg_catalog.=) 'sleep' AND until OPERATOR(pg_catalog.<=) howdah.clock() AS is_over
    FROM howdah.step_details WHERE job_id OPERATOR(pg_catalog.=) %(id)s
) AS step
ORDER BY begun_at, name
