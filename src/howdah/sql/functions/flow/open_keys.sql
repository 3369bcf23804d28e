-- Without a lock: a key that gets room meanwhile is found by the next claim, for which the end of its job has woken a worker. A key that may
-- run no jobs at all is left to claim_keys, which lets it rest.
CREATE OR REPLACE FUNCTION howdah.open_keys(p_job_type varchar, p_keys text[]) RETURNS text[]
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT coalesce(array_agg(k.flow_key ORDER BY k.place), '{}')
    FROM howdah.types AS t
    CROSS JOIN unnest(p_keys) WITH ORDINALITY AS k (flow_key, place)
    LEFT JOIN LATERAL (
        SELECT own.max_running, own.held_from FROM howdah.flow_keys AS own
        WHERE own.job_type = p_job_type AND own.flow_key = k.flow_key
        -- Each row by the index, whatever the statistics: not a join of all keys with all rows.
        OFFSET 0
    ) AS f ON true
    CROSS JOIN LATERAL (SELECT nullif(howdah.limit_of_keys(t, f.max_running), 0) AS max_running) AS rule
    WHERE t.job_type = p_job_type AND (rule.max_running > (
        SELECT count(*) FROM (
            SELECT FROM howdah.live AS j
            WHERE j.job_type = p_job_type AND j.flow_key = k.flow_key AND j.status IN ('claimed', 'running')
                AND j.token >= coalesce(CASE WHEN t.settling IS NULL THEN f.held_from END, 0)
            LIMIT rule.max_running
        ) AS held
    )) IS NOT FALSE
$$;
COMMENT ON FUNCTION howdah.open_keys IS 'The keys without those of which as many jobs run as may. Part of claim.';
REVOKE ALL ON FUNCTION howdah.open_keys FROM PUBLIC;
