-- All jobs at once. If that raises an error, one by one: a job that cannot be recovered must not keep the others from it. The error is
-- a warning then, which names the job. An error of the server (a lock, a full disk, a shutdown) ends the
-- sweep, and the next one tries again.
CREATE OR REPLACE FUNCTION howdah.recover_cause(p_cause text, p_limit int, p_now timestamptz, p_may_judge boolean)
RETURNS TABLE (id uuid, status varchar, reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_tokens bigint[];
    v_id uuid;
    v_left int := coalesce(p_limit, 2147483647);
BEGIN
    BEGIN
        IF p_cause = 'expired' THEN
            SELECT array_agg(e.id) INTO v_ids FROM (
                SELECT j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.expires_at IS NOT NULL AND j.expires_at <= howdah.clock()
                ORDER BY j.expires_at LIMIT p_limit
                FOR UPDATE SKIP LOCKED
            ) AS e;
        ELSIF p_cause = 'no attempts left' THEN
            SELECT array_agg(e.id) INTO v_ids FROM (
                SELECT j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.attempts >= j.max_attempts
                ORDER BY j.id LIMIT p_limit
                FOR UPDATE SKIP LOCKED
            ) AS e;
        ELSE
            SELECT array_agg(e.id), array_agg(e.token) INTO v_ids, v_tokens FROM (
                SELECT j.id, o.token
                FROM howdah.live AS j CROSS JOIN LATERAL howdah.overdue(j, p_cause, p_now, p_may_judge) AS o
                WHERE j.status IN ('claimed', 'running')
                -- Unordered: in the order of ids, the plan would read all jobs if the statistics say that most are held.
                LIMIT p_limit
                FOR UPDATE OF j SKIP LOCKED
            ) AS e;
        END IF;
        RETURN QUERY SELECT * FROM howdah.end_overdue(p_cause, v_ids, v_tokens);
        RETURN;
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
    END;

    -- In a random order: if many jobs raise errors, another sweep begins with others.
    FOR v_id IN
        SELECT c.id FROM (
            SELECT j.id FROM howdah.live AS j
            WHERE p_cause = 'expired' AND j.status = 'pending' AND j.expires_at IS NOT NULL AND j.expires_at <= howdah.clock()
            UNION ALL
            SELECT j.id FROM howdah.live AS j
            WHERE p_cause = 'no attempts left' AND j.status = 'pending' AND j.attempts >= j.max_attempts
            UNION ALL
            SELECT j.id FROM howdah.live AS j
            WHERE p_cause NOT IN ('expired', 'no attempts left') AND j.status IN ('claimed', 'running')
        ) AS c
        ORDER BY random()
    LOOP
        EXIT WHEN v_left <= 0;
        BEGIN
            IF p_cause IN ('expired', 'no attempts left') THEN
                SELECT ARRAY[j.id] INTO v_ids FROM howdah.live AS j
                WHERE j.id = v_id AND j.status = 'pending' AND (p_cause <> 'expired' OR j.expires_at <= howdah.clock())
                    AND (p_cause = 'expired' OR j.attempts >= j.max_attempts)
                FOR UPDATE SKIP LOCKED;
            ELSE
                SELECT ARRAY[j.id], ARRAY[o.token] INTO v_ids, v_tokens
                FROM howdah.live AS j CROSS JOIN LATERAL howdah.overdue(j, p_cause, p_now, p_may_judge) AS o
                WHERE j.id = v_id AND j.status IN ('claimed', 'running')
                FOR UPDATE OF j SKIP LOCKED;
            END IF;
            RETURN QUERY SELECT * FROM howdah.end_overdue(p_cause, v_ids, v_tokens);
            v_left := v_left - coalesce(cardinality(v_ids), 0);
        EXCEPTION
            WHEN others THEN
                IF howdah.is_passing(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'job % could not be recovered (%): %', v_id, p_cause, SQLERRM;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.recover_cause IS
    'The part of the sweep for one cause. A job whose recovery raises an error is left out, with a warning. Internal.';
REVOKE ALL ON FUNCTION howdah.recover_cause FROM PUBLIC;
