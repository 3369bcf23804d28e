-- The limits of a type and of its groups are kept under the locks of their rows; that of a type is its row in flow_types, because the end of
-- a job may change the one in types (pause_on_failure). Held jobs are counted by a new statement, which sees what the former holder of a
-- lock has committed. A claim is short, so this waits for the locks, but not long, and once for all types. Jobs are counted from held_from
-- on, which moves on now and then, under the same locks; every claim gives its jobs tokens above it (note_held_from). While a type is
-- settling, claims that do not know its rules yet may be under way: then all held jobs are counted.
CREATE OR REPLACE FUNCTION howdah.flow_room(p_job_type varchar, p_wanted int, p_picked uuid[]) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    v_type howdah.types;
    v_has_rules boolean;
    v_room int;
    v_held_from bigint;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'claiming jobs with flow keys needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001', HINT = 'A stricter transaction cannot see what others have claimed since it began, and would exceed limits.';
    END IF;
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = p_job_type;
    v_has_rules := howdah.limit_of_type(v_type) IS NOT NULL OR howdah.rate_of_type(v_type) IS NOT NULL;
    IF NOT v_has_rules AND NOT EXISTS (SELECT FROM howdah.flow_groups AS g WHERE g.name = ANY (v_type.groups)) THEN
        RETURN p_wanted;
    END IF;
    IF current_setting('jobqueue.has_waited', true) = 'true' THEN
        SET LOCAL lock_timeout = '1ms';
    END IF;
    BEGIN
        IF v_has_rules THEN
            PERFORM FROM howdah.flow_types AS f WHERE f.job_type = p_job_type FOR NO KEY UPDATE;
            IF NOT FOUND THEN
                -- Two claims may add it, and the second one waits for the first.
                INSERT INTO howdah.flow_types (job_type) VALUES (p_job_type) ON CONFLICT DO NOTHING;
                PERFORM FROM howdah.flow_types AS f WHERE f.job_type = p_job_type FOR NO KEY UPDATE;
            END IF;
        END IF;
        PERFORM FROM howdah.flow_groups AS g WHERE g.name = ANY (v_type.groups) ORDER BY g.name FOR NO KEY UPDATE;
    EXCEPTION
        WHEN lock_not_available THEN
            PERFORM set_config('jobqueue.has_waited', 'true', true);
            RETURN 0;
    END;
    SELECT f.held_from, least(
        p_wanted,
        CASE WHEN howdah.limit_of_type(t) IS NOT NULL THEN howdah.limit_of_type(t) - (
            SELECT count(*) FROM howdah.live AS j
            WHERE j.job_type = p_job_type AND j.flow_key IS NOT NULL AND j.line IS NULL AND j.status IN ('claimed', 'running')
                AND j.token >= coalesce(CASE WHEN v_type.settling IS NULL THEN f.held_from END, 0)
        ) - (
            SELECT count(*) FROM howdah.live AS j WHERE j.id = ANY (p_picked) AND j.job_type = p_job_type
        ) END,
        -- A job costs one token at least.
        floor(howdah.tokens(howdah.rate_of_type(t), f.full_at) + 0.000001)
    )
    INTO v_held_from, v_room
    FROM howdah.types AS t LEFT JOIN howdah.flow_types AS f ON f.job_type = t.job_type WHERE t.job_type = p_job_type;
    SELECT least(v_room, min(floor(howdah.tokens(g.rate, g.full_at) + 0.000001)), min(g.max_running - (
        SELECT count(*) FROM howdah.types AS t
        LEFT JOIN howdah.flow_types AS f ON f.job_type = t.job_type
        JOIN howdah.live AS j ON j.job_type = t.job_type AND j.token >= coalesce(CASE WHEN t.settling IS NULL THEN f.held_from END, 0)
        WHERE g.name = ANY (t.groups) AND j.flow_key IS NOT NULL AND j.line IS NULL AND j.status IN ('claimed', 'running')
    ) - (
        SELECT count(*) FROM howdah.live AS j JOIN howdah.types AS t ON t.job_type = j.job_type
        WHERE j.id = ANY (p_picked) AND g.name = ANY (t.groups)
    )))
    INTO v_room
    FROM howdah.flow_groups AS g WHERE g.name = ANY (v_type.groups);
    IF v_type.settling IS NULL AND random() < 0.06 THEN
        v_held_from := greatest(v_held_from, howdah.held_from_now((
            SELECT min(j.token) FROM howdah.live AS j
            WHERE j.job_type = p_job_type AND j.flow_key IS NOT NULL AND j.line IS NULL AND j.status IN ('claimed', 'running') AND j.token >= coalesce(v_held_from, 0)
        )));
        INSERT INTO howdah.flow_types (job_type, held_from) VALUES (p_job_type, v_held_from)
        ON CONFLICT (job_type) DO UPDATE SET held_from = excluded.held_from;
    END IF;
    PERFORM howdah.note_held_from(v_held_from);
    RETURN greatest(v_room, 0);
END
$$;
COMMENT ON FUNCTION howdah.flow_room IS
    'How many jobs of a type may be claimed now by the limits and rates of the type and its groups, at most p_wanted. p_picked: jobs that'
    ' this claim has locked already. Part of claim.';
REVOKE ALL ON FUNCTION howdah.flow_room FROM PUBLIC;
