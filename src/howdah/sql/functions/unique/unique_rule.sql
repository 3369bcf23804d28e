CREATE OR REPLACE FUNCTION howdah.unique_rule(p_job_type varchar, p_rule jsonb)
RETURNS TABLE (basis jsonb, span interval, states varchar[], conflict text, delay interval, hashed_by text)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_rule jsonb := jsonb_strip_nulls(coalesce(p_rule, (SELECT t.unique_rule FROM howdah.types AS t WHERE t.job_type = p_job_type)));
    v_retention interval := (SELECT s.archive_retention FROM howdah.settings AS s);
    v_problem text;
BEGIN
    IF v_rule IS NULL THEN
        RAISE EXCEPTION 'there is no unique rule for type %', p_job_type USING
            ERRCODE = 'JQ001',
            HINT = 'Pass p_unique, such as {"by": "arguments"}, or declare one for the type: @queue.job(unique=True).';
    END IF;
    v_problem := CASE
        WHEN jsonb_typeof(v_rule) <> 'object' THEN 'it is no JSON object'
        WHEN pg_column_size(v_rule) > 8192 THEN 'it has more than 8192 bytes'
        WHEN v_rule - ARRAY['by', 'within', 'states', 'conflict', 'delay', 'hashed_by'] <> '{}' THEN 'it has an unknown field'
        WHEN NOT coalesce(v_rule -> 'by' IN ('"arguments"', '"key"'), true) AND (
            jsonb_typeof(v_rule -> 'by') <> 'array' OR jsonb_path_exists(v_rule, '$.by[*] ? (@.type() != "string" || @ == "")')
        ) THEN 'by is "arguments", "key", or an array of names or paths of arguments'
        WHEN NOT coalesce(v_rule -> 'conflict' IN ('"keep"', '"replace"', '"reschedule"', '"raise"'), true)
            THEN 'conflict is "keep", "replace", "reschedule" or "raise"'
        WHEN v_rule ? 'states' AND (jsonb_typeof(v_rule -> 'states') <> 'array' OR v_rule -> 'states' = '[]' OR NOT v_rule -> 'states'
            <@ '["pending", "claimed", "running", "completed", "failed", "cancelled"]')
            THEN 'states is an array of statuses'
        WHEN v_rule ? 'within' AND (v_rule -> 'within' BETWEEN '0.001' AND '3153600000') IS NOT TRUE
            THEN 'within is a positive number of seconds'
        WHEN v_rule ? 'delay' AND (v_rule -> 'delay' BETWEEN '0' AND '3153600000') IS NOT TRUE
            THEN 'delay is a number of seconds'
    END;
    IF v_problem IS NOT NULL THEN
        RAISE EXCEPTION 'not a unique rule: %', v_problem USING
            ERRCODE = 'JQ001',
            HINT = 'For example {"by": ["invoice"], "within": 3600, "states": ["pending", "running", "completed"], "conflict": "keep"}.';
    END IF;
    basis := coalesce(v_rule -> 'by', '"arguments"');
    span := make_interval(secs => (v_rule -> 'within')::float8);
    conflict := coalesce(v_rule ->> 'conflict', 'keep');
    delay := make_interval(secs => (v_rule -> 'delay')::float8);
    hashed_by := v_rule ->> 'hashed_by';
    states := CASE
        WHEN v_rule ? 'states' THEN ARRAY(SELECT jsonb_array_elements_text(v_rule -> 'states'))
        WHEN conflict IN ('replace', 'reschedule') THEN ARRAY['pending']
        WHEN span IS NOT NULL THEN ARRAY['pending', 'claimed', 'running', 'completed', 'failed']
        ELSE ARRAY['pending', 'claimed', 'running']
    END;
    IF states && ARRAY['completed', 'failed', 'cancelled']::varchar[] AND (span <= v_retention) IS NOT TRUE THEN
        RAISE EXCEPTION 'a unique rule that counts ended jobs needs a window of at most %: ended jobs are kept for so long', v_retention USING
            ERRCODE = 'JQ001',
            HINT = 'Set within, leave the ended states out, or have an operator raise settings.archive_retention.';
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.unique_rule IS
    'A rule for enqueue_unique, or that of the type, checked and with its defaults filled in. Rejects an invalid one with SQLSTATE JQ001. Internal.';
REVOKE ALL ON FUNCTION howdah.unique_rule FROM PUBLIC;
