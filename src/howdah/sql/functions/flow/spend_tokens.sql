-- The caller has locked the rows of the type, its groups and the keys: see flow_room and claim_keys. The order of jobs stays: behind a job
-- for which its key has too few tokens, no other job of the key starts, and behind one for which the type or a group has too few,
-- none at all. Otherwise expensive jobs would wait for ever beside cheap ones.
CREATE OR REPLACE FUNCTION howdah.spend_tokens(p_job_type varchar, p_found uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type howdah.types;
    v_rate howdah.rate;
    v_group record;
    v_full_at timestamptz;
    v_ids uuid[];
    v_keys text[];
    v_costs int[];
    v_short text[];
    v_short_cost int[];
    v_kept int;
BEGIN
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = p_job_type;
    IF NOT v_type.rated AND v_type.groups IS NULL THEN
        RETURN p_found;
    END IF;
    WITH job AS (
        SELECT found.place, j.id, j.flow_key, coalesce(j.cost, v_type.cost, 1) AS cost, howdah.rate_of_keys(v_type, k.rate) AS rate, k.full_at
        FROM unnest(p_found) WITH ORDINALITY AS found (id, place)
        JOIN howdah.live AS j ON j.id = found.id
        LEFT JOIN howdah.flow_keys AS k ON k.job_type = p_job_type AND k.flow_key = j.flow_key
        WHERE j.id = ANY (p_found)
    ), charged AS (
        SELECT job.*, (
            sum(least(job.cost, (job.rate).burst)) OVER (PARTITION BY job.flow_key ORDER BY job.place)
            <= howdah.tokens(job.rate, job.full_at) + 0.000001
        ) IS NOT FALSE AS fits
        FROM job
    )
    SELECT
        coalesce(array_agg(c.id ORDER BY c.place) FILTER (WHERE c.fits), '{}'),
        coalesce(array_agg(c.flow_key ORDER BY c.place) FILTER (WHERE c.fits), '{}'),
        coalesce(array_agg(c.cost ORDER BY c.place) FILTER (WHERE c.fits), '{}'),
        array_agg(c.flow_key ORDER BY c.place) FILTER (WHERE NOT c.fits),
        array_agg(c.cost ORDER BY c.place) FILTER (WHERE NOT c.fits)
    INTO v_ids, v_keys, v_costs, v_short, v_short_cost
    FROM charged AS c;

    v_kept := cardinality(v_ids);
    v_rate := howdah.rate_of_type(v_type);
    IF v_rate IS NOT NULL THEN
        SELECT b.full_at INTO v_full_at FROM howdah.flow_types AS b WHERE b.job_type = p_job_type;
        v_kept := howdah.affordable(v_costs, v_rate, v_full_at);
    END IF;
    FOR v_group IN SELECT g.rate, g.full_at FROM howdah.flow_groups AS g WHERE g.name = ANY (v_type.groups) AND g.rate IS NOT NULL LOOP
        v_kept := least(v_kept, howdah.affordable(v_costs, v_group.rate, v_group.full_at));
    END LOOP;

    IF v_kept > 0 THEN
        IF v_rate IS NOT NULL THEN
            INSERT INTO howdah.flow_types (job_type, full_at)
            SELECT p_job_type, howdah.without_tokens(v_rate, v_full_at, sum(least(c.cost, v_rate.burst))) FROM unnest(v_costs[:v_kept]) AS c (cost)
            ON CONFLICT (job_type) DO UPDATE SET full_at = excluded.full_at;
        END IF;
        UPDATE howdah.flow_groups AS g SET full_at = howdah.without_tokens(g.rate, g.full_at, (
            SELECT sum(least(c.cost, (g.rate).burst)) FROM unnest(v_costs[:v_kept]) AS c (cost)
        ))
        WHERE g.name = ANY (v_type.groups) AND g.rate IS NOT NULL;
        UPDATE howdah.flow_keys AS k SET full_at = howdah.without_tokens(howdah.rate_of_keys(v_type, k.rate), k.full_at, (
            SELECT sum(least(c.cost, (howdah.rate_of_keys(v_type, k.rate)).burst))
            FROM unnest(v_keys[:v_kept], v_costs[:v_kept]) AS c (flow_key, cost) WHERE c.flow_key = k.flow_key
        ))
        WHERE k.job_type = p_job_type AND k.flow_key = ANY (v_keys[:v_kept]) AND howdah.rate_of_keys(v_type, k.rate) IS NOT NULL;
    END IF;
    IF v_short IS NOT NULL THEN
        UPDATE howdah.flow_keys AS k
        SET rests_until = howdah.has_tokens_at(howdah.rate_of_keys(v_type, k.rate), k.full_at, v_short_cost[array_position(v_short, k.flow_key)])
        WHERE k.job_type = p_job_type AND k.flow_key = ANY (v_short);
    END IF;
    RETURN v_ids[:v_kept];
END
$$;
COMMENT ON FUNCTION howdah.spend_tokens IS
    'Takes the tokens of jobs of a type, which the caller has locked, from the buckets of their keys, their type and its groups. Returns the jobs'
    ' for which there were enough. Part of claim.';
REVOKE ALL ON FUNCTION howdah.spend_tokens FROM PUBLIC;
