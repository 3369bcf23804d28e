CREATE OR REPLACE FUNCTION howdah.declare_types(p_types jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type record;
BEGIN
    FOR v_type IN
        SELECT t.* FROM jsonb_to_recordset(p_types) AS t (
            job_type varchar, ordered boolean, pause_on_failure boolean, priority int, max_attempts int, timeout interval,
            expires_in interval, retry_policy jsonb, max_crashes int, fail_stalled boolean, per text, "limit" int, order_skips boolean,
            groups text[], unique_rule jsonb, rate howdah.rate, cost int, max_pending int, when_full text, on_failure varchar
        )
        -- In one order, because many workers start at once and would deadlock otherwise.
        ORDER BY t.job_type
    LOOP
        PERFORM howdah.declare_type(
            v_type.job_type, coalesce(v_type.ordered, false), coalesce(v_type.pause_on_failure, false), v_type.priority,
            v_type.max_attempts, v_type.timeout, v_type.expires_in, v_type.retry_policy, v_type.max_crashes,
            coalesce(v_type.fail_stalled, false), v_type.per, v_type."limit", coalesce(v_type.order_skips, false), v_type.groups, v_type.unique_rule,
            v_type.rate, v_type.cost, v_type.max_pending, v_type.when_full, v_type.on_failure
        );
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.declare_types IS
    'declare_type for many types at once: an array of objects, each with the arguments of declare_type, without their p_.';
REVOKE ALL ON FUNCTION howdah.declare_types FROM PUBLIC;
