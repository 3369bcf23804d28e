-- As stream.sql, for workflows: the events of their jobs, and their own. seen: how many events of all jobs the page had.
SELECT e.*, (SELECT NOT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT')) AS is_redacted
FROM (
    SELECT
        r.*, pg_catalog.count(r.job_id) OVER () AS seen,
        CASE WHEN r.job_id OPERATOR(pg_catalog.=) ANY (%(workflows)s::pg_catalog.uuid[]) THEN r.job_id ELSE howdah.workflow_of(r.job_id) END AS workflow_id
    FROM howdah.read_events(p_after => %(after)s, p_until => %(until)s, p_kinds => %(kinds)s, p_limit => %(limit)s) AS r
) AS e
WHERE e.job_id IS NULL OR e.workflow_id OPERATOR(pg_catalog.=) ANY (%(workflows)s::pg_catalog.uuid[])
