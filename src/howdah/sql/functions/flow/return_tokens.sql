-- A bucket that another session has locked keeps the tokens: too few start then, and never too many.
CREATE OR REPLACE FUNCTION howdah.return_tokens(p_job_types varchar[], p_flow_keys text[], p_costs int[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.flow_keys AS k SET full_at = howdah.without_tokens(r.rate, k.full_at, -r.tokens)
    FROM (
        SELECT f.job_type, f.flow_key, howdah.rate_of_keys(t, f.rate) AS rate, (
            SELECT sum(least(coalesce(j.cost, t.cost, 1), (howdah.rate_of_keys(t, f.rate)).burst))
            FROM unnest(p_job_types, p_flow_keys, p_costs) AS j (job_type, flow_key, cost)
            WHERE j.job_type = f.job_type AND j.flow_key = f.flow_key
        ) AS tokens
        FROM howdah.flow_keys AS f JOIN howdah.types AS t ON t.job_type = f.job_type
        WHERE (f.job_type, f.flow_key) IN (SELECT j.job_type, j.flow_key FROM unnest(p_job_types, p_flow_keys) AS j (job_type, flow_key))
            AND howdah.rate_of_keys(t, f.rate) IS NOT NULL
        FOR UPDATE OF f SKIP LOCKED
    ) AS r
    WHERE k.job_type = r.job_type AND k.flow_key = r.flow_key;
    UPDATE howdah.flow_types AS b SET full_at = howdah.without_tokens(r.rate, b.full_at, -r.tokens)
    FROM (
        SELECT t.job_type, howdah.rate_of_type(t) AS rate, (
            SELECT sum(least(coalesce(j.cost, t.cost, 1), (howdah.rate_of_type(t)).burst))
            FROM unnest(p_job_types, p_costs) AS j (job_type, cost) WHERE j.job_type = t.job_type
        ) AS tokens
        FROM howdah.flow_types AS f JOIN howdah.types AS t ON t.job_type = f.job_type
        WHERE f.job_type = ANY (p_job_types) AND howdah.rate_of_type(t) IS NOT NULL
        FOR NO KEY UPDATE OF f SKIP LOCKED
    ) AS r
    WHERE b.job_type = r.job_type;
    UPDATE howdah.flow_groups AS g SET full_at = howdah.without_tokens(g.rate, g.full_at, -(
        SELECT sum(least(coalesce(j.cost, t.cost, 1), (g.rate).burst))
        FROM unnest(p_job_types, p_costs) AS j (job_type, cost) JOIN howdah.types AS t ON t.job_type = j.job_type
        WHERE g.name = ANY (t.groups)
    ))
    WHERE g.name IN (
        SELECT f.name FROM howdah.flow_groups AS f
        WHERE f.rate IS NOT NULL AND EXISTS (
            SELECT FROM howdah.types AS t WHERE t.job_type = ANY (p_job_types) AND f.name = ANY (t.groups)
        )
        FOR UPDATE SKIP LOCKED
    );
END
$$;
COMMENT ON FUNCTION howdah.return_tokens IS 'Gives the tokens of jobs that were claimed, and have not started, back to the buckets. Internal.';
REVOKE ALL ON FUNCTION howdah.return_tokens FROM PUBLIC;
