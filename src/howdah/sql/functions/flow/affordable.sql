CREATE OR REPLACE FUNCTION howdah.affordable(p_costs int[], p_rate howdah.rate, p_full_at timestamptz) RETURNS int
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT count(*) FILTER (WHERE c.total <= howdah.tokens(p_rate, p_full_at) + 0.000001)::int
    FROM (SELECT sum(least(c.cost, p_rate.burst)) OVER (ORDER BY c.place) AS total FROM unnest(p_costs) WITH ORDINALITY AS c (cost, place)) AS c
$$;
COMMENT ON FUNCTION howdah.affordable IS 'For how many jobs, from the first on, a bucket has enough tokens. Internal.';
REVOKE ALL ON FUNCTION howdah.affordable FROM PUBLIC;
