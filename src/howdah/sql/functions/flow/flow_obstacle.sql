CREATE OR REPLACE FUNCTION howdah.flow_obstacle(p_job howdah.live) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT CASE
        WHEN k.paused_at IS NOT NULL THEN howdah.key_in_words(p_job) || ' is paused'
        -- Of an order, the limit is one, and order_obstacle names the job; unless an operator has set it to 0.
        WHEN held.of_key >= howdah.limit_of_keys(t, k.max_running) AND (NOT t.ordered OR howdah.limit_of_keys(t, k.max_running) = 0) THEN
            format('%s of %s jobs of %s are running', held.of_key, howdah.limit_of_keys(t, k.max_running), howdah.key_in_words(p_job))
        WHEN held.of_type >= howdah.limit_of_type(t) THEN
            format('%s of %s jobs of its type are running', held.of_type, howdah.limit_of_type(t))
        WHEN howdah.tokens(howdah.rate_of_keys(t, k.rate), k.full_at) + 0.000001 < least(job.cost, (howdah.rate_of_keys(t, k.rate)).burst) THEN
            howdah.rate_in_words(howdah.key_in_words(p_job), howdah.rate_of_keys(t, k.rate), k.full_at, job.cost)
        WHEN howdah.tokens(howdah.rate_of_type(t), b.full_at) + 0.000001 < least(job.cost, (howdah.rate_of_type(t)).burst) THEN
            howdah.rate_in_words('its type', howdah.rate_of_type(t), b.full_at, job.cost)
        ELSE coalesce((
            SELECT format('%s of %s jobs of the group %s are running', g.held, g.max_running, g.name)
            FROM (
                SELECT g.name, g.max_running, (
                    SELECT count(*) FROM howdah.types AS o JOIN howdah.live AS j ON j.job_type = o.job_type
                    WHERE g.name = ANY (o.groups) AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
                ) AS held
                FROM howdah.flow_groups AS g WHERE g.name = ANY (t.groups)
            ) AS g
            WHERE g.held >= g.max_running
            ORDER BY g.name
            LIMIT 1
        ), (
            SELECT howdah.rate_in_words('the group ' || g.name, g.rate, g.full_at, job.cost)
            FROM howdah.flow_groups AS g
            WHERE g.name = ANY (t.groups) AND howdah.tokens(g.rate, g.full_at) + 0.000001 < least(job.cost, (g.rate).burst)
            ORDER BY g.full_at DESC
            LIMIT 1
        ))
    END
    FROM howdah.types AS t
    LEFT JOIN howdah.flow_keys AS k ON k.job_type = p_job.job_type AND k.flow_key = p_job.flow_key
    LEFT JOIN howdah.flow_types AS b ON b.job_type = p_job.job_type
    CROSS JOIN LATERAL (SELECT coalesce(p_job.cost, t.cost, 1) AS cost) AS job
    CROSS JOIN LATERAL (
        SELECT
            (
                SELECT count(*) FROM howdah.live AS j
                WHERE j.job_type = p_job.job_type AND j.flow_key = p_job.flow_key AND j.status IN ('claimed', 'running')
            ) AS of_key,
            (
                SELECT count(*) FROM howdah.live AS j
                WHERE j.job_type = p_job.job_type AND j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
            ) AS of_type
    ) AS held
    WHERE t.job_type = p_job.job_type
$$;
COMMENT ON FUNCTION howdah.flow_obstacle IS 'Which limit or rate, or which pause of its key, keeps a pending job from running; NULL if none does. Internal.';
REVOKE ALL ON FUNCTION howdah.flow_obstacle FROM PUBLIC;
