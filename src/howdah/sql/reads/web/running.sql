-- The running jobs: the stalled first, then those that report progress, and of these the oldest.
SELECT id
FROM howdah.live_jobs
WHERE status OPERATOR(pg_catalog.=) ANY ('{claimed,running}'::pg_catalog.text[]) AND status OPERATOR(pg_catalog.=) 'running'
ORDER BY coalesce(stalls_at OPERATOR(pg_catalog.<) howdah.clock(), false) DESC, progress_report IS NULL, started_at, id
LIMIT %(limit)s::int
