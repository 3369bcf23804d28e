-- Which jobs of one window match, newest first: as list.sql, with the filters of the dashboard. By finished_at, which is NULL of live
-- jobs in the view, the planner leaves out a table that the statuses exclude. Without a window, all jobs from first_id on are searched.
SELECT id
FROM (
    SELECT * FROM howdah.job_details
    WHERE (%(before)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.<) %(before)s::pg_catalog.uuid)
        AND (%(first_id)s::pg_catalog.uuid IS NULL OR id OPERATOR(pg_catalog.>=) %(first_id)s::pg_catalog.uuid)
        AND (%(statuses)s::pg_catalog.text[] IS NULL OR status OPERATOR(pg_catalog.=) ANY (%(statuses)s::pg_catalog.text[]))
        AND (%(live)s::boolean OR finished_at IS NOT NULL) AND (%(ended)s::boolean OR finished_at IS NULL)
    ORDER BY id DESC
    LIMIT %(window)s::int
) AS seen
WHERE (%(job_types)s::pg_catalog.text[] IS NULL OR job_type OPERATOR(pg_catalog.=) ANY (%(job_types)s::pg_catalog.text[]))
    AND (%(key)s::pg_catalog.text IS NULL OR key OPERATOR(pg_catalog.=) %(key)s::pg_catalog.text)
    AND (%(flow_key)s::pg_catalog.text IS NULL OR flow_key OPERATOR(pg_catalog.=) %(flow_key)s::pg_catalog.text)
    AND (%(worker)s::pg_catalog.text IS NULL OR worker_id OPERATOR(pg_catalog.=) %(worker)s::pg_catalog.text)
    AND (%(workflow)s::pg_catalog.uuid IS NULL OR workflow_id OPERATOR(pg_catalog.=) %(workflow)s::pg_catalog.uuid)
    AND (%(node)s::int IS NULL OR node OPERATOR(pg_catalog.=) %(node)s::int)
    AND (%(error)s::pg_catalog.text IS NULL OR pg_catalog.strpos(last_error, %(error)s::pg_catalog.text) OPERATOR(pg_catalog.>) 0)
    AND (%(least_priority)s::int IS NULL OR priority OPERATOR(pg_catalog.>=) %(least_priority)s::int)
    AND (%(most_priority)s::int IS NULL OR priority OPERATOR(pg_catalog.<=) %(most_priority)s::int)
    AND (%(since)s::pg_catalog.timestamptz IS NULL OR created_at OPERATOR(pg_catalog.>=) %(since)s::pg_catalog.timestamptz)
    AND (%(until)s::pg_catalog.timestamptz IS NULL OR created_at OPERATOR(pg_catalog.<) %(until)s::pg_catalog.timestamptz)
    AND (NOT %(stalled)s::boolean OR stalls_at OPERATOR(pg_catalog.<) howdah.clock())
    AND (NOT %(scheduled)s::boolean OR run_at OPERATOR(pg_catalog.>) howdah.clock())
    AND (%(contains)s::pg_catalog.jsonb IS NULL OR data OPERATOR(pg_catalog.@>) %(contains)s::pg_catalog.jsonb)
    -- A path with a condition, such as $.user == 7, has the value true or false. Any other one has what it finds.
    AND (
        %(path)s::pg_catalog.jsonpath IS NULL
        OR coalesce(pg_catalog.jsonb_path_query_first(data, %(path)s::pg_catalog.jsonpath, '{}', true), 'false') OPERATOR(pg_catalog.<>) ALL ('{false,"null"}'::pg_catalog.jsonb[])
    )
ORDER BY id DESC
LIMIT %(limit)s::int
