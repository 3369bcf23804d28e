CREATE OR REPLACE FUNCTION howdah.lock_selected(
    p_job_types varchar[],
    p_statuses varchar[],
    p_key text,
    p_flow_key text,
    p_error text,
    p_before timestamptz,
    p_position uuid,
    p_limit int
) RETURNS TABLE (ids uuid[], skipped int, next_position uuid)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
-- See selection_end.
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_live boolean := p_statuses && '{pending,claimed,running}';
    v_ended boolean := p_statuses && '{completed,failed,cancelled}';
    v_completed boolean := 'completed' = ANY (p_statuses);
    v_of_key uuid[] := howdah.live_of_key(p_job_types, p_flow_key, 10 * p_limit);
    v_end uuid := howdah.selection_end(p_statuses, p_position, 10 * p_limit, v_of_key);
    v_found uuid[];
    v_ended_ids uuid[];
BEGIN
    v_found := ARRAY(
        SELECT f.id FROM (
            SELECT j.id FROM howdah.live AS j
            WHERE v_live AND j.id >= p_position AND (v_end IS NULL OR j.id < v_end)
                AND (v_of_key IS NULL OR j.id = ANY (v_of_key))
                AND howdah.is_selected(
                    j.job_type, j.status, howdah.key_of(j.key, j.unique_key), j.flow_key, j.last_error, j.created_at,
                    p_job_types, p_statuses, p_key, p_flow_key, p_error, p_before
                )
            UNION ALL
            SELECT a.id FROM howdah.archive AS a
            WHERE v_ended AND a.id >= p_position AND (v_end IS NULL OR a.id < v_end)
                AND (v_completed OR a.status <> 'completed') AND howdah.is_selected(
                    a.job_type, a.status, howdah.key_of(a.key, a.unique_key), a.flow_key, a.last_error, a.finished_at,
                    p_job_types, p_statuses, p_key, p_flow_key, p_error, p_before
                )
        ) AS f
        ORDER BY f.id LIMIT p_limit + 1
    );
    next_position := coalesce(v_found[p_limit + 1], v_end);
    v_found := v_found[:p_limit];

    -- The filters again: a job may have changed since it was found, and then its new state decides.
    IF v_live THEN
        SELECT array_agg(j.id) INTO ids FROM (
            SELECT j.id FROM howdah.live AS j
            WHERE j.id = ANY (v_found) AND howdah.is_selected(
                j.job_type, j.status, howdah.key_of(j.key, j.unique_key), j.flow_key, j.last_error, j.created_at,
                p_job_types, p_statuses, p_key, p_flow_key, p_error, p_before
            )
            ORDER BY j.id FOR UPDATE SKIP LOCKED
        ) AS j;
    END IF;
    IF v_ended THEN
        SELECT array_agg(a.id) INTO v_ended_ids FROM (
            SELECT a.id FROM howdah.archive AS a
            WHERE a.id = ANY (v_found) AND howdah.is_selected(
                a.job_type, a.status, howdah.key_of(a.key, a.unique_key), a.flow_key, a.last_error, a.finished_at,
                p_job_types, p_statuses, p_key, p_flow_key, p_error, p_before
            )
            ORDER BY a.id FOR UPDATE SKIP LOCKED
        ) AS a;
    END IF;
    ids := coalesce(ids, '{}') || coalesce(v_ended_ids, '{}');
    skipped := cardinality(v_found) - cardinality(ids);
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.lock_selected IS
    'Locks the next jobs of a selection, p_limit at most, and returns them. skipped counts those that matched, but another transaction had'
    ' locked or was changing. next_position: where to continue; NULL at the end. Internal.';
REVOKE ALL ON FUNCTION howdah.lock_selected FROM PUBLIC;
