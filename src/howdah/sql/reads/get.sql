-- is_redacted as in the other reads, but evaluated for the row: for a single one, that is faster than a subquery.
SELECT
    *,
    CASE WHEN may_wait THEN howdah.wait_in_words(id, token) END AS waits_for,
    coalesce(stalls_at OPERATOR(pg_catalog.<) howdah.clock(), false) AS stalled,
    NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT') AS is_redacted
FROM howdah.job_details
WHERE id OPERATOR(pg_catalog.=) %(id)s
