-- As get_many.sql, for jobs that have not ended: the other view would search each segment of the archive.
SELECT
    *,
    CASE WHEN may_wait THEN howdah.wait_in_words(id, token) END AS waits_for,
    coalesce(stalls_at OPERATOR(pg_catalog.<) howdah.clock(), false) AS stalled,
    (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM howdah.live_jobs
WHERE id OPERATOR(pg_catalog.=) ANY (%(ids)s::pg_catalog.uuid[])
