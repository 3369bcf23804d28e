-- As watched.sql, for all held jobs that have reported something.
SELECT j.id, pg_catalog.concat_ws(' ', j.version, j.stalls_at OPERATOR(pg_catalog.<) howdah.clock()) AS mark
FROM howdah.live_jobs AS j
WHERE j.status OPERATOR(pg_catalog.=) ANY ('{claimed,running}') AND j.progress_report IS NOT NULL
    AND (%(job_types)s::pg_catalog.text[] IS NULL OR j.job_type OPERATOR(pg_catalog.=) ANY (%(job_types)s::pg_catalog.text[]))
    AND (%(workflows)s::pg_catalog.uuid[] IS NULL OR j.workflow_id OPERATOR(pg_catalog.=) ANY (%(workflows)s::pg_catalog.uuid[]))
