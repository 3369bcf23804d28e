-- Only functions of PostgreSQL itself: see live_jobs.
CREATE OR REPLACE VIEW howdah.limits AS
SELECT
    l.job_type, l.flow_key, l.group_name, l.each_key, l.max_running, l.weight, l.paused_at, l.paused_because, l.by_operator, l.running,
    (l.rate).jobs AS rate_jobs, (l.rate).seconds AS rate_seconds, (l.rate).burst AS rate_burst
FROM (
    SELECT
        NULL::varchar AS job_type, NULL::text AS flow_key, g.name AS group_name, false AS each_key, g.max_running, NULL::int AS weight,
        NULL::timestamptz AS paused_at, NULL::text AS paused_because, true AS by_operator,
        (
            SELECT count(*) FROM howdah.types AS t JOIN howdah.live AS j ON j.job_type = t.job_type
            WHERE g.name = ANY (t.groups) AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
        ) AS running,
        g.rate
    FROM howdah.flow_groups AS g
    UNION ALL
    SELECT
        t.job_type, NULL, NULL, false, coalesce(t.type_limit, CASE WHEN t.per IS NULL THEN t.declared_limit END), NULL, NULL, NULL,
        num_nonnulls(t.type_limit, t.type_rate) > 0,
        (
            SELECT count(*) FROM howdah.live AS j
            WHERE j.job_type = t.job_type AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
        ),
        coalesce(t.type_rate, CASE WHEN t.per IS NULL THEN t.declared_rate END)
    FROM howdah.types AS t
    WHERE num_nonnulls(t.type_limit, t.type_rate) > 0 OR (t.per IS NULL AND num_nonnulls(t.declared_limit, t.declared_rate) > 0)
    UNION ALL
    SELECT
        t.job_type, NULL, NULL, true,
        CASE WHEN t.ordered THEN least(t.key_limit, 1) ELSE coalesce(t.key_limit, CASE WHEN t.per IS NOT NULL THEN t.declared_limit END) END,
        NULL, NULL, NULL, num_nonnulls(t.key_limit, t.key_rate) > 0,
        -- Those of all keys together.
        (
            SELECT count(*) FROM howdah.live AS j
            WHERE j.job_type = t.job_type AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
        ),
        coalesce(t.key_rate, CASE WHEN t.per IS NOT NULL THEN t.declared_rate END)
    FROM howdah.types AS t
    WHERE num_nonnulls(t.key_limit, t.key_rate) > 0 OR t.ordered OR (t.per IS NOT NULL AND num_nonnulls(t.declared_limit, t.declared_rate) > 0)
    UNION ALL
    SELECT
        k.job_type,
        CASE WHEN (SELECT has_table_privilege('howdah.live'::regclass, 'SELECT')) OR k.flow_key = '' THEN k.flow_key ELSE '[redacted]' END,
        NULL, false, k.max_running, k.weight, k.paused_at, k.paused_because, true,
        (
            SELECT count(*) FROM howdah.live AS j
            WHERE j.job_type = k.job_type AND j.flow_key = k.flow_key AND j.status IN ('claimed', 'running')
        ),
        k.rate
    FROM howdah.flow_keys AS k
    WHERE num_nonnulls(k.max_running, k.weight, k.paused_at, k.rate) > 0
) AS l;
COMMENT ON VIEW howdah.limits IS
    'How many jobs may run at once over all workers, how many run, and how often they may start: one row for the limits of a group, of a type, of'
    ' each key of a type, and of one key, and for each key with a weight or a pause. by_operator: not by the handler.';
