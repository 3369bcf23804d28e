-- Only functions of PostgreSQL itself: see live_jobs.
CREATE OR REPLACE VIEW howdah.limits AS
SELECT
    NULL::varchar AS job_type, NULL::text AS flow_key, g.name AS group_name, false AS each_key, g.max_running, NULL::int AS weight,
    NULL::timestamptz AS paused_at, NULL::text AS paused_because, true AS by_operator,
    (
        SELECT count(*) FROM howdah.types AS t JOIN howdah.live AS j ON j.job_type = t.job_type
        WHERE g.name = ANY (t.groups) AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
    ) AS running
FROM howdah.flow_groups AS g
UNION ALL
SELECT
    t.job_type, NULL, NULL, false, coalesce(t.type_limit, t.declared_limit), NULL, NULL, NULL, t.type_limit IS NOT NULL,
    (
        SELECT count(*) FROM howdah.live AS j
        WHERE j.job_type = t.job_type AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
    )
FROM howdah.types AS t
WHERE t.type_limit IS NOT NULL OR (t.declared_limit IS NOT NULL AND t.per IS NULL)
UNION ALL
SELECT
    t.job_type, NULL, NULL, true,
    CASE WHEN t.ordered THEN least(t.key_limit, 1) ELSE coalesce(t.key_limit, t.declared_limit) END, NULL, NULL, NULL, t.key_limit IS NOT NULL,
    NULL
FROM howdah.types AS t
WHERE t.key_limit IS NOT NULL OR t.ordered OR (t.declared_limit IS NOT NULL AND t.per IS NOT NULL)
UNION ALL
SELECT
    k.job_type,
    CASE WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) OR k.flow_key = '' THEN k.flow_key ELSE '[redacted]' END,
    NULL, false, k.max_running, k.weight, k.paused_at, k.paused_because, true,
    (
        SELECT count(*) FROM howdah.live AS j
        WHERE j.job_type = k.job_type AND j.flow_key = k.flow_key AND j.status IN ('claimed', 'running')
    )
FROM howdah.flow_keys AS k
WHERE num_nonnulls(k.max_running, k.weight, k.paused_at) > 0;
COMMENT ON VIEW howdah.limits IS
    'How many jobs may run at once over all workers, and how many run: one row for each limit of a group, of a type, of each key of a type, and'
    ' of one key, and for each key with a weight or a pause. by_operator: not by the handler.';
