CREATE OR REPLACE FUNCTION howdah.sweep_flow() RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
BEGIN
    -- A producer could not mark the type: see use_keys.
    PERFORM howdah.use_keys(array_agg(unmarked.job_type)) FROM (
        WITH RECURSIVE walk AS (
            (SELECT j.job_type FROM howdah.live AS j WHERE j.flow_key IS NOT NULL AND j.status = 'pending' ORDER BY j.job_type LIMIT 1)
            UNION ALL
            SELECT step.job_type FROM walk CROSS JOIN LATERAL (
                SELECT j.job_type FROM howdah.live AS j
                WHERE j.flow_key IS NOT NULL AND j.status = 'pending' AND j.job_type > walk.job_type ORDER BY j.job_type LIMIT 1
            ) AS step
        )
        SELECT walk.job_type FROM walk LEFT JOIN howdah.types AS t ON t.job_type = walk.job_type WHERE t.keyed IS NOT TRUE
    ) AS unmarked
    HAVING count(*) > 0;
    PERFORM howdah.apply_flow(t.job_type) FROM howdah.types AS t WHERE t.settling IS NOT NULL;
    -- A rest that is over, of a key without jobs behind: such keys would hide those that have some from claims.
    UPDATE howdah.flow_keys AS k SET rests_until = NULL WHERE k.ctid = ANY (ARRAY(
        SELECT f.ctid FROM howdah.flow_keys AS f
        WHERE f.rests_until <= howdah.clock() AND NOT EXISTS (
            SELECT FROM howdah.live AS j
            WHERE j.flow_key IS NOT NULL AND j.status = 'pending' AND j.job_type = f.job_type AND j.flow_key = f.flow_key AND j.line = 'behind'
        )
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ));
    -- The clock was ahead for a moment, and no sweep has seen it: see follow_clock. No bucket takes longer than an empty one, and no other rest
    -- than a minute.
    UPDATE howdah.flow_types AS b SET full_at = howdah.sane_full_at(r.rate, b.full_at)
    FROM (
        SELECT f.job_type, howdah.rate_of_type(t) AS rate FROM howdah.flow_types AS f JOIN howdah.types AS t ON t.job_type = f.job_type
        WHERE f.full_at > howdah.clock() AND f.full_at <> howdah.sane_full_at(howdah.rate_of_type(t), f.full_at)
        FOR UPDATE OF f SKIP LOCKED
    ) AS r
    WHERE b.job_type = r.job_type;
    UPDATE howdah.flow_groups AS g SET full_at = howdah.sane_full_at(g.rate, g.full_at) WHERE g.name IN (
        SELECT f.name FROM howdah.flow_groups AS f
        WHERE f.full_at > howdah.clock() AND f.full_at <> howdah.sane_full_at(f.rate, f.full_at)
        FOR UPDATE SKIP LOCKED
    );
    UPDATE howdah.flow_keys AS k SET full_at = r.full_at, rests_until = CASE WHEN k.rests_until < 'infinity' THEN least(k.rests_until, howdah.clock()) ELSE k.rests_until END
    FROM (
        SELECT f.ctid, howdah.sane_full_at(howdah.rate_of_keys(t, f.rate), f.full_at) AS full_at
        FROM howdah.flow_keys AS f JOIN howdah.types AS t ON t.job_type = f.job_type
        WHERE (f.full_at > howdah.clock() AND f.full_at <> howdah.sane_full_at(howdah.rate_of_keys(t, f.rate), f.full_at))
            OR (f.rests_until > greatest(f.full_at, howdah.clock()) + interval '2 minutes' AND f.rests_until < 'infinity')
        LIMIT 1000
        FOR UPDATE OF f SKIP LOCKED
    ) AS r
    WHERE k.ctid = r.ctid;
    -- Keys without jobs and settings.
    DELETE FROM howdah.flow_keys AS k WHERE k.ctid = ANY (ARRAY(
        SELECT f.ctid FROM howdah.flow_keys AS f
        WHERE f.rests_until IS NULL AND num_nonnulls(f.max_running, f.weight, f.paused_at, f.rate) = 0
            AND (f.full_at > howdah.clock()) IS NOT TRUE
            AND NOT EXISTS (SELECT FROM howdah.live AS j WHERE j.flow_key IS NOT NULL AND j.status = 'pending' AND j.job_type = f.job_type AND j.flow_key = f.flow_key)
            AND NOT EXISTS (SELECT FROM howdah.live AS j WHERE j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running') AND j.job_type = f.job_type AND j.flow_key = f.flow_key)
        LIMIT 1000
        FOR UPDATE SKIP LOCKED
    ));
    -- Counts that several producers made at once.
    DELETE FROM howdah.backlog_counts AS c WHERE c.ctid = ANY (ARRAY(
        SELECT o.ctid FROM howdah.backlog_counts AS o WHERE o.counted_at < clock_timestamp() - interval '1 minute' LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
END
$$;
COMMENT ON FUNCTION howdah.sweep_flow IS 'The part of the sweep for flow control. Internal.';
REVOKE ALL ON FUNCTION howdah.sweep_flow FROM PUBLIC;
