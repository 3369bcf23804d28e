CREATE OR REPLACE FUNCTION howdah.selected_statuses(p_verb text, p_statuses varchar[]) RETURNS varchar[]
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_possible varchar[] := CASE p_verb
        WHEN 'cancel' THEN '{pending,claimed,running}'
        WHEN 'delete' THEN '{pending,claimed,completed,failed,cancelled}'
        WHEN 'reprioritise' THEN '{pending}'
        WHEN 'reschedule' THEN '{pending}'
        WHEN 'retry' THEN '{completed,failed,cancelled}'
    END;
    v_status varchar;
BEGIN
    IF v_possible IS NULL THEN
        RAISE EXCEPTION '% is not a verb of selections', coalesce(quote_literal(p_verb), 'NULL') USING
            ERRCODE = 'JQ001',
            HINT = 'The verbs are cancel, delete, reprioritise, reschedule and retry.';
    ELSIF p_statuses IS NULL THEN
        -- Jobs that have completed or were cancelled run again only by request.
        RETURN CASE WHEN p_verb = 'retry' THEN '{failed}' ELSE v_possible END;
    END IF;
    FOREACH v_status IN ARRAY p_statuses LOOP
        IF v_status <> ALL (v_possible) THEN
            RAISE EXCEPTION '% cannot change jobs that are %', p_verb, v_status USING
                ERRCODE = 'JQ001',
                HINT = format(
                    'It takes jobs that are %s.%s', array_to_string(v_possible, ', '),
                    CASE WHEN p_verb = 'delete' AND v_status = 'running' THEN ' Cancel running jobs first.' ELSE '' END
                );
        END IF;
    END LOOP;
    RETURN p_statuses;
END
$$;
COMMENT ON FUNCTION howdah.selected_statuses IS
    'The statuses of the jobs that a verb changes, of those that a selection asks for. Rejects statuses that the verb cannot change, and'
    ' unknown verbs, with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.selected_statuses FROM PUBLIC;
