CREATE OR REPLACE FUNCTION howdah.count_selected(
    p_verb text DEFAULT NULL,
    p_job_types varchar[] DEFAULT NULL,
    p_statuses varchar[] DEFAULT NULL,
    p_key text DEFAULT NULL,
    p_flow_key text DEFAULT NULL,
    p_error text DEFAULT NULL,
    p_before timestamptz DEFAULT NULL,
    p_position uuid DEFAULT NULL,
    p_limit int DEFAULT 10000
) RETURNS TABLE (job_type varchar, status varchar, jobs bigint, next_position uuid)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
-- See selection_end.
SET plan_cache_mode = force_custom_plan
AS $$
#variable_conflict use_column
DECLARE
    v_statuses varchar[] := CASE WHEN p_verb IS NULL THEN p_statuses ELSE howdah.selected_statuses(p_verb, p_statuses) END;
    v_live boolean := v_statuses IS NULL OR v_statuses && '{pending,claimed,running}';
    v_ended boolean := v_statuses IS NULL OR v_statuses && '{completed,failed,cancelled}';
    v_completed boolean := v_statuses IS NULL OR 'completed' = ANY (v_statuses);
    v_position uuid := coalesce(p_position, '00000000-0000-0000-0000-000000000000');
    v_of_key uuid[];
    v_end uuid;
BEGIN
    PERFORM howdah.check_selection(p_key, p_flow_key, p_error, p_limit, true);
    v_of_key := howdah.live_of_key(p_job_types, p_flow_key, coalesce(p_limit, 10000));
    v_end := howdah.selection_end(v_statuses, v_position, coalesce(p_limit, 10000), v_of_key);
    RETURN QUERY
    SELECT f.job_type, f.status, count(*), v_end FROM (
        SELECT j.job_type, j.status FROM howdah.live AS j
        WHERE v_live AND j.id >= v_position AND (v_end IS NULL OR j.id < v_end)
            AND (v_of_key IS NULL OR j.id = ANY (v_of_key))
            AND howdah.is_selected(
                j.job_type, j.status, howdah.key_of(j.key, j.unique_key), j.flow_key, j.last_error, j.created_at,
                p_job_types, v_statuses, p_key, p_flow_key, p_error, p_before
            )
        UNION ALL
        SELECT a.job_type, a.status FROM howdah.archive AS a
        WHERE v_ended AND a.id >= v_position AND (v_end IS NULL OR a.id < v_end)
            AND (v_completed OR a.status <> 'completed') AND howdah.is_selected(
                a.job_type, a.status, howdah.key_of(a.key, a.unique_key), a.flow_key, a.last_error, a.finished_at,
                p_job_types, v_statuses, p_key, p_flow_key, p_error, p_before
            )
    ) AS f
    GROUP BY f.job_type, f.status;
    IF NOT FOUND THEN
        jobs := 0;
        next_position := v_end;
        RETURN NEXT;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.count_selected IS
    'Counts the jobs of a selection, or with p_verb those that change_selected would take, by type and status. It reads p_limit jobs: call it'
    ' again with the next_position that it returns, until that is NULL, and add up. The filters are those of change_selected.';
REVOKE ALL ON FUNCTION howdah.count_selected FROM PUBLIC;
