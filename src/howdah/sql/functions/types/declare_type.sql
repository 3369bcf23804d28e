-- Unchanged settings are not written, and wait for no lock: every worker declares its types when it starts. A change waits only for the
-- row of the type, and not long: an operator may hold it in an open transaction.
CREATE OR REPLACE FUNCTION howdah.declare_type(
    p_job_type varchar,
    p_ordered boolean DEFAULT false,
    p_pause_on_failure boolean DEFAULT false,
    p_priority int DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_in interval DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_max_crashes int DEFAULT NULL,
    p_fail_stalled boolean DEFAULT false,
    p_per text DEFAULT NULL,
    p_limit int DEFAULT NULL,
    p_order_skips boolean DEFAULT false,
    p_groups text[] DEFAULT NULL,
    p_unique_rule jsonb DEFAULT NULL,
    p_rate howdah.rate DEFAULT NULL,
    p_cost int DEFAULT NULL,
    p_max_pending int DEFAULT NULL,
    p_when_full text DEFAULT NULL,
    p_on_failure varchar DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '200ms'
AS $$
DECLARE
    v_rate howdah.rate := howdah.check_rate(p_rate.jobs, p_rate.seconds, p_rate.burst);
    v_groups text[] := (SELECT array_agg(DISTINCT g.name ORDER BY g.name) FROM unnest(p_groups) AS g (name));
    v_before howdah.types;
    v_keyed boolean := p_ordered OR num_nonnulls(p_per, p_limit, v_groups, v_rate) > 0;
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    IF p_limit < 1 THEN
        RAISE EXCEPTION 'limit is %, and must be at least 1', p_limit USING ERRCODE = 'JQ001', HINT = 'To run no jobs of a type, pause it.';
    END IF;
    IF length(p_per) > 200 OR EXISTS (SELECT FROM unnest(v_groups) AS g (name) WHERE length(g.name) > 200) THEN
        RAISE EXCEPTION 'the name of a parameter or a group has at most 200 characters' USING ERRCODE = 'JQ003';
    END IF;
    IF p_on_failure IS NOT NULL THEN
        PERFORM howdah.check_job_type(p_on_failure);
    END IF;
    PERFORM howdah.check_cost(p_cost);
    PERFORM howdah.check_bound(p_max_pending, p_when_full);
    PERFORM howdah.check_options(p_max_attempts, p_expires_in, p_timeout, p_retry_policy);
    IF p_unique_rule IS NOT NULL THEN
        PERFORM howdah.unique_rule(p_job_type, p_unique_rule);
    END IF;
    IF EXISTS (
        SELECT FROM howdah.types AS t
        WHERE t.job_type = p_job_type AND t.declared_at IS NOT NULL AND (
            t.ordered, t.pause_on_failure, t.priority, t.max_attempts, t.timeout, t.expires_in, t.retry_policy, t.max_crashes,
            t.fail_stalled, t.per, t.declared_limit, t.order_skips, t.groups, t.unique_rule, t.declared_rate, t.cost,
            t.declared_max_pending, t.declared_when_full, t.on_failure
        ) IS NOT DISTINCT FROM (
            p_ordered, p_pause_on_failure, p_priority, p_max_attempts, p_timeout, p_expires_in, p_retry_policy, p_max_crashes,
            p_fail_stalled, p_per, p_limit, p_order_skips, v_groups, p_unique_rule, v_rate, p_cost,
            p_max_pending, p_when_full, p_on_failure
        )
    ) THEN
        RETURN;
    END IF;
    SELECT * INTO v_before FROM howdah.types AS t WHERE t.job_type = p_job_type FOR NO KEY UPDATE;
    INSERT INTO howdah.types AS t (
        job_type, ordered, pause_on_failure, priority, max_attempts, timeout, expires_in, retry_policy, max_crashes,
        fail_stalled, declared_at, per, declared_limit, order_skips, groups, unique_rule, declared_rate, cost, rated,
        declared_max_pending, declared_when_full, on_failure, keyed, settling
    ) VALUES (
        p_job_type, p_ordered, p_pause_on_failure, p_priority, p_max_attempts, p_timeout, p_expires_in, p_retry_policy,
        p_max_crashes, p_fail_stalled, howdah.clock(), p_per, p_limit, p_order_skips, v_groups, p_unique_rule,
        v_rate, p_cost, v_rate IS NOT NULL, p_max_pending, p_when_full, p_on_failure, v_keyed, CASE WHEN v_keyed THEN '{}'::text[] END
    )
    ON CONFLICT (job_type) DO UPDATE SET
        ordered = excluded.ordered, pause_on_failure = excluded.pause_on_failure, priority = excluded.priority,
        max_attempts = excluded.max_attempts, timeout = excluded.timeout, expires_in = excluded.expires_in,
        retry_policy = excluded.retry_policy, max_crashes = excluded.max_crashes,
        fail_stalled = excluded.fail_stalled, declared_at = excluded.declared_at, per = excluded.per,
        declared_limit = excluded.declared_limit, order_skips = excluded.order_skips, groups = excluded.groups, unique_rule = excluded.unique_rule,
        declared_max_pending = excluded.declared_max_pending, declared_when_full = excluded.declared_when_full,
        on_failure = excluded.on_failure,
        declared_rate = excluded.declared_rate, cost = excluded.cost, rated = t.rated OR excluded.rated,
        keyed = excluded.keyed OR num_nonnulls(t.type_limit, t.key_limit, t.type_rate, t.key_rate) > 0 OR (t.keyed AND EXISTS (
            SELECT FROM howdah.live AS j WHERE j.job_type = excluded.job_type AND j.status = 'pending' AND j.flow_key > ''
        )),
        settling = CASE
            WHEN (t.ordered, t.keyed, t.per, t.declared_limit, t.groups)
                IS DISTINCT FROM (excluded.ordered, excluded.keyed, excluded.per, excluded.declared_limit, excluded.groups)
            THEN '{}'
            ELSE t.settling
        END;
    PERFORM howdah.apply_flow(p_job_type, p_declares => true);
    IF v_rate IS NOT NULL THEN
        PERFORM howdah.apply_rate(v_before, p_job_type);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.declare_type IS
    'Sets the defaults and rules for jobs of a type. Workers call it when they start.';
REVOKE ALL ON FUNCTION howdah.declare_type FROM PUBLIC;
