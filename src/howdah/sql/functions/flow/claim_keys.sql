-- The row of a key is the lock under which its held jobs are counted, by a new statement, which sees what the former holder of the lock has
-- committed. So no two claims can exceed a limit, and nothing has to be counted down when a worker dies. A key that another claim is at
-- is passed by.
--
-- If the head of an ordered key waits for its retry, or the rate of a key is used up, the key rests: its ready jobs go behind, and claims pass
-- it without a look until the rest is over. Jobs are behind only while their key has rests_until: both are written under the lock of
-- the key. During a short rest they stay ready: to look at the key now and then costs less than to change its jobs. A key that may run no
-- jobs at all rests until set_limit ends it.
CREATE OR REPLACE FUNCTION howdah.claim_keys(
    p_job_type varchar,
    p_priority int,
    p_keys text[],
    p_wanted int,
    p_picked uuid[],
    p_seen uuid[],
    p_include_crashed boolean,
    p_due_from timestamptz DEFAULT '-infinity'
) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type howdah.types;
    v_limit int;
    v_has_rules boolean;
    v_keys text[];
    v_limits int[];
    v_rates howdah.rate[];
    v_full_ats timestamptz[];
    v_held_froms bigint[];
    v_weights int[];
    v_rested text[];
    v_resting text[];
    v_heads uuid[];
    v_waiting text[];
    v_waiting_until timestamptz[];
    v_stopped text[];
    v_found uuid[];
    v_share int;
BEGIN
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = p_job_type;
    v_limit := howdah.limit_of_keys(v_type);
    v_has_rules := v_limit IS NOT NULL OR howdah.rate_of_keys(v_type) IS NOT NULL;
    IF v_has_rules THEN
        PERFORM howdah.add_keys(p_job_type, p_keys);
    END IF;
    WITH locked AS MATERIALIZED (
        SELECT f.flow_key, f.max_running, f.weight, f.rests_until, f.paused_at, f.rate, f.full_at, f.held_from FROM howdah.flow_keys AS f
        WHERE f.job_type = p_job_type AND f.flow_key = ANY (p_keys)
        FOR UPDATE SKIP LOCKED
    ), key AS (
        SELECT k.place, k.flow_key, l.max_running, l.weight, l.rests_until, l.paused_at, l.rate, l.full_at, l.held_from
        FROM unnest(p_keys) WITH ORDINALITY AS k (flow_key, place)
        LEFT JOIN locked AS l ON l.flow_key = k.flow_key
        WHERE l.flow_key IS NOT NULL OR (NOT v_has_rules AND NOT EXISTS (
            SELECT FROM howdah.flow_keys AS f WHERE f.job_type = p_job_type AND f.flow_key = k.flow_key
        ))
    )
    SELECT
        array_agg(k.flow_key ORDER BY k.place) FILTER (WHERE k.is_awake),
        array_agg(howdah.limit_of_keys(v_type, k.max_running) ORDER BY k.place) FILTER (WHERE k.is_awake),
        array_agg(coalesce(k.weight, 1) ORDER BY k.place) FILTER (WHERE k.is_awake),
        array_agg(k.flow_key) FILTER (WHERE k.is_awake AND k.rests_until IS NOT NULL),
        array_agg(k.flow_key) FILTER (WHERE NOT k.is_awake AND k.rests_until > howdah.clock() + interval '1 second'),
        array_agg(howdah.rate_of_keys(v_type, k.rate) ORDER BY k.place) FILTER (WHERE k.is_awake),
        array_agg(k.full_at ORDER BY k.place) FILTER (WHERE k.is_awake),
        array_agg(k.held_from ORDER BY k.place) FILTER (WHERE k.is_awake),
        array_agg(k.flow_key) FILTER (WHERE k.is_awake AND howdah.limit_of_keys(v_type, k.max_running) = 0)
    INTO v_keys, v_limits, v_weights, v_rested, v_resting, v_rates, v_full_ats, v_held_froms, v_stopped
    FROM (
        SELECT *, (key.rests_until > howdah.clock()) IS NOT TRUE OR (
            -- A job that came before the head for which the key rests is the new head.
            v_type.ordered AND NOT v_type.order_skips AND key.paused_at IS NULL
            AND EXISTS (SELECT FROM howdah.flow_head(p_job_type, key.flow_key) AS head WHERE head.run_at <= howdah.clock())
        ) AS is_awake
        FROM key
    ) AS k;

    IF v_limit IS NOT NULL AND v_type.settling IS NULL AND random() < 0.06 THEN
        -- Counting goes on from the first job that is held now.
        UPDATE howdah.flow_keys AS f SET held_from = greatest(f.held_from, howdah.held_from_now((
            SELECT min(j.token) FROM howdah.live AS j
            WHERE j.job_type = p_job_type AND j.flow_key = f.flow_key AND j.status IN ('claimed', 'running') AND j.token >= coalesce(f.held_from, 0)
        )))
        WHERE f.job_type = p_job_type AND f.flow_key = ANY (v_keys);
        PERFORM howdah.note_held_from(howdah.held_from_now(NULL));
    END IF;
    PERFORM howdah.note_held_from((SELECT max(h.held_from) FROM unnest(v_held_froms) AS h (held_from)));

    SELECT
        array_agg(k.flow_key ORDER BY k.place) FILTER (WHERE k.affordable IS NULL OR k.affordable >= 1),
        array_agg(least(k.room, k.affordable) ORDER BY k.place) FILTER (WHERE k.affordable IS NULL OR k.affordable >= 1),
        array_agg(k.weight ORDER BY k.place) FILTER (WHERE k.affordable IS NULL OR k.affordable >= 1),
        -- Not those of which this claim has already found jobs: these tokens are taken when it ends.
        array_agg(k.flow_key) FILTER (WHERE k.affordable < 1 AND k.spent = 0),
        array_agg(howdah.has_tokens_at(k.rate, k.full_at, 1)) FILTER (WHERE k.affordable < 1 AND k.spent = 0)
    INTO v_keys, v_limits, v_weights, v_waiting, v_waiting_until
    FROM (
        SELECT k.flow_key, k.place, k.weight, v_rates[k.place] AS rate, k.full_at, coalesce(own.spent, 0) AS spent,
            floor(howdah.tokens(v_rates[k.place], k.full_at) - coalesce(own.spent, 0) + 0.000001) AS affordable, k.max_running - coalesce(own.jobs, 0) - CASE WHEN k.max_running IS NOT NULL THEN (
            SELECT count(*) FROM (
                SELECT FROM howdah.live AS j
                WHERE j.job_type = p_job_type AND j.flow_key = k.flow_key AND j.status IN ('claimed', 'running')
                    AND j.token >= coalesce(CASE WHEN v_type.settling IS NULL THEN k.held_from END, 0)
                LIMIT k.max_running
            ) AS held
        ) END AS room
        FROM unnest(v_keys, v_limits, v_weights, v_full_ats, v_held_froms) WITH ORDINALITY AS k (flow_key, max_running, weight, full_at, held_from, place)
        LEFT JOIN (
            SELECT j.flow_key, count(*) AS jobs, sum(coalesce(j.cost, v_type.cost, 1)) FILTER (WHERE j.id = ANY (p_seen)) AS spent
            FROM howdah.live AS j
            WHERE j.id = ANY (p_picked) AND j.job_type = p_job_type GROUP BY j.flow_key
        ) AS own ON own.flow_key = k.flow_key
    ) AS k
    WHERE (k.room IS NULL OR k.room > 0)
        -- In the same statement as the count: the end that made room may have paused the type (pause_on_failure).
        AND NOT EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = p_job_type AND t.paused_at IS NOT NULL);

    IF v_type.ordered AND NOT v_type.order_skips THEN
        SELECT
            array_agg(head.id ORDER BY k.place) FILTER (WHERE head.run_at <= howdah.clock()),
            v_waiting || array_agg(k.flow_key) FILTER (WHERE head.run_at > howdah.clock()),
            -- Not longer than a minute: a head that is rescheduled or cancelled ends the rest, but a claim may not see that in time.
            v_waiting_until
            || array_agg(least(head.run_at, howdah.clock() + interval '1 minute')) FILTER (WHERE head.run_at > howdah.clock())
        INTO v_heads, v_waiting, v_waiting_until
        FROM unnest(v_keys) WITH ORDINALITY AS k (flow_key, place)
        CROSS JOIN LATERAL howdah.flow_head(p_job_type, k.flow_key) AS head;
        v_found := ARRAY(
            SELECT j.id FROM howdah.live AS j
            -- Not the predicate of an index of pending jobs: these must be found by their ids, whatever the statistics.
            WHERE j.id = ANY (v_heads) AND j.status NOT IN ('claimed', 'running') AND j.attempts < j.max_attempts
                AND j.run_at <= howdah.clock()
                AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                AND (p_include_crashed OR j.crashes = 0)
            LIMIT p_wanted
            FOR UPDATE SKIP LOCKED
        );
    ELSE
        v_share := (p_wanted - 1) / greatest((SELECT sum(w.weight) FROM unnest(v_weights) AS w (weight)), 1) + 1;
        v_found := ARRAY(
            SELECT first.id
            FROM unnest(v_keys, v_limits, v_weights) AS k (flow_key, room, weight)
            CROSS JOIN LATERAL (
                SELECT j.id FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.flow_key IS NOT NULL
                    AND j.job_type = p_job_type AND j.flow_key = k.flow_key AND j.priority = p_priority
                    AND j.first_due_at >= p_due_from AND j.line <> 'later' AND j.attempts < j.max_attempts AND j.run_at <= howdah.clock()
                    AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
                    AND (p_include_crashed OR j.crashes = 0)
                    AND j.id <> ALL (p_seen)
                ORDER BY j.first_due_at, j.id
                LIMIT least(v_share::bigint * k.weight, k.room)
                FOR UPDATE SKIP LOCKED
            ) AS first
            LIMIT p_wanted
        );
    END IF;

    IF v_stopped IS NOT NULL THEN
        -- set_limit waits for this lock, and then sees the rests that it has to end.
        PERFORM FROM howdah.types AS t WHERE t.job_type = p_job_type AND t.key_limit IS NOT DISTINCT FROM v_type.key_limit FOR SHARE SKIP LOCKED;
        IF FOUND THEN
            v_waiting := v_waiting || v_stopped;
            v_waiting_until := v_waiting_until || array_fill('infinity'::timestamptz, ARRAY[cardinality(v_stopped)]);
        END IF;
    END IF;
    IF v_resting IS NOT NULL OR v_waiting IS NOT NULL THEN
        UPDATE howdah.live AS j SET line = 'behind', own_write = NOT j.own_write
        WHERE j.id = ANY (ARRAY(
            SELECT r.id
            FROM (
                SELECT unnest(v_resting) AS flow_key
                UNION ALL
                SELECT w.flow_key FROM unnest(v_waiting, v_waiting_until) AS w (flow_key, until) WHERE w.until > howdah.clock() + interval '1 second'
            ) AS k
            CROSS JOIN LATERAL (
                SELECT r.id FROM howdah.live AS r
                WHERE r.line = 'ready' AND r.status = 'pending' AND r.attempts < r.max_attempts
                    AND r.job_type = p_job_type AND r.priority = p_priority AND r.flow_key = k.flow_key
                LIMIT 1000
                FOR UPDATE SKIP LOCKED
            ) AS r
        ));
    END IF;
    IF v_rested IS NOT NULL OR v_waiting IS NOT NULL THEN
        UPDATE howdah.flow_keys AS f SET rests_until = k.until
        FROM (
            SELECT w.flow_key, w.until FROM unnest(v_waiting, v_waiting_until) AS w (flow_key, until)
            UNION ALL
            -- A key with jobs behind stays among those whose rest is over, and goes to their end.
            SELECT r.flow_key, CASE WHEN EXISTS (
                SELECT FROM howdah.live AS j
                WHERE j.status = 'pending' AND j.flow_key IS NOT NULL AND j.job_type = p_job_type AND j.flow_key = r.flow_key
                    AND j.line = 'behind' AND j.id <> ALL (v_found)
            ) THEN howdah.clock() END
            FROM unnest(v_rested) AS r (flow_key) WHERE r.flow_key = ANY (v_waiting) IS NOT TRUE
        ) AS k (flow_key, until)
        WHERE f.job_type = p_job_type AND f.flow_key = k.flow_key;
    END IF;
    RETURN v_found;
END
$$;
COMMENT ON FUNCTION howdah.claim_keys IS
    'Locks the next jobs of some keys, within their limits and orders: of each key as many as its weight says. p_picked: jobs that'
    ' this claim has locked already; p_seen: those of them that these keys have given.'
    ' p_due_from: jobs that were due earlier are left out. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_keys FROM PUBLIC;
