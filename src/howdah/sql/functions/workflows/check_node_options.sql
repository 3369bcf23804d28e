CREATE OR REPLACE FUNCTION howdah.check_node_options(p_options jsonb) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_unknown text;
    v_known howdah.node_options;
BEGIN
    IF jsonb_typeof(p_options) <> 'object' THEN
        RAISE EXCEPTION 'the options of a node are an object' USING ERRCODE = 'JQ001';
    END IF;
    SELECT string_agg(k.name, ', ') INTO v_unknown FROM jsonb_object_keys(p_options) AS k (name)
    WHERE k.name NOT IN ('priority', 'delay', 'run_at', 'max_attempts', 'timeout', 'expires_at', 'expires_in', 'retry_policy', 'meta', 'cost', 'flow_key');
    IF v_unknown IS NOT NULL THEN
        RAISE EXCEPTION 'not an option of a node: %', v_unknown USING ERRCODE = 'JQ001';
    END IF;
    BEGIN
        v_known := jsonb_populate_record(NULL::howdah.node_options, p_options);
        -- As release_node adds them.
        PERFORM greatest(v_known.run_at, howdah.clock() + v_known.delay, howdah.clock()) + v_known.expires_in;
    EXCEPTION
        WHEN data_exception THEN
            RAISE EXCEPTION 'an option of a node is not valid: %', SQLERRM USING ERRCODE = 'JQ001';
    END;
    -- Any span of check_options can be added to it.
    IF v_known.run_at NOT BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00' THEN
        RAISE EXCEPTION 'run_at is %, and must be a time of the years 1 to 9999', v_known.run_at USING ERRCODE = 'JQ001';
    END IF;
    PERFORM howdah.check_options(v_known.max_attempts, v_known.delay, v_known.timeout, v_known.retry_policy, v_known.expires_in);
    PERFORM howdah.check_meta(v_known.meta);
    PERFORM howdah.check_cost(v_known.cost);
    PERFORM howdah.check_keys(array_remove(ARRAY[v_known.flow_key], NULL), 'flow key');
END
$$;
COMMENT ON FUNCTION howdah.check_node_options IS 'Refuses options that the jobs of a node cannot have. Internal.';
REVOKE ALL ON FUNCTION howdah.check_node_options FROM PUBLIC;
