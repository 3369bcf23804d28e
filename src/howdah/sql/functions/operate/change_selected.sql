CREATE OR REPLACE FUNCTION howdah.change_selected(
    p_verb text,
    p_job_types varchar[] DEFAULT NULL,
    p_statuses varchar[] DEFAULT NULL,
    p_key text DEFAULT NULL,
    p_flow_key text DEFAULT NULL,
    p_error text DEFAULT NULL,
    p_before timestamptz DEFAULT NULL,
    p_everything boolean DEFAULT false,
    p_position uuid DEFAULT NULL,
    p_limit int DEFAULT 1000,
    p_reason text DEFAULT NULL,
    p_priority int DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL,
    p_fresh boolean DEFAULT false
) RETURNS TABLE (changed int, asked int, unchanged int, skipped int, next_position uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Jobs that are locked are skipped. What else a batch may wait for is a key that another transaction is adding, or a row of types.
SET lock_timeout = '100ms'
AS $$
DECLARE
    v_statuses varchar[] := howdah.selected_statuses(p_verb, p_statuses);
    v_ids uuid[];
    v_tried int := 0;
    v_locked int := 0;
BEGIN
    PERFORM howdah.check_selection(
        p_key, p_flow_key, p_error, p_limit,
        p_everything OR num_nonnulls(p_job_types, p_statuses, p_key, p_flow_key, p_error, p_before) > 0
    );
    SELECT s.ids, s.skipped, s.next_position INTO v_ids, skipped, next_position
    FROM howdah.lock_selected(
        p_job_types, v_statuses, p_key, p_flow_key, p_error, p_before,
        coalesce(p_position, '00000000-0000-0000-0000-000000000000'), coalesce(p_limit, 1000)
    ) AS s;
    asked := 0;
    CASE p_verb
        WHEN 'cancel' THEN
            SELECT count(*), count(*) FILTER (WHERE c.status = 'running') INTO changed, asked FROM howdah.cancel(v_ids, p_reason) AS c;
        WHEN 'delete' THEN
            SELECT count(*) INTO changed FROM howdah.delete_jobs(v_ids);
        WHEN 'reprioritise' THEN
            SELECT count(*) INTO changed FROM howdah.reprioritise(v_ids, p_priority);
        WHEN 'reschedule' THEN
            SELECT count(*) INTO changed FROM howdah.reschedule(v_ids, p_run_at);
        WHEN 'retry' THEN
            BEGIN
                SELECT count(*) INTO changed FROM howdah.retry_ended(v_ids, p_fresh);
            EXCEPTION
                WHEN lock_not_available THEN
                    -- Another transaction is adding a job with the key of one of these. That one is skipped; after ten waits, so are the
                    -- remaining ones.
                    changed := 0;
                    WHILE v_tried < cardinality(v_ids) AND v_locked < 10 LOOP
                        v_tried := v_tried + 1;
                        BEGIN
                            changed := changed + (SELECT count(*) FROM howdah.retry_ended(ARRAY[v_ids[v_tried]], p_fresh));
                        EXCEPTION
                            WHEN lock_not_available THEN
                                v_locked := v_locked + 1;
                        END;
                    END LOOP;
                    v_locked := v_locked + cardinality(v_ids) - v_tried;
            END;
    END CASE;
    skipped := skipped + v_locked;
    unchanged := cardinality(v_ids) - v_locked - changed;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.change_selected IS
    'Applies a verb to the next p_limit jobs at most that match all filters: cancel (with p_reason), delete, reprioritise (to p_priority),'
    ' reschedule (to p_run_at, or now) or retry (p_fresh: without their steps and checkpoints). Call it again with the next_position that it returns, each time in a transaction of its own,'
    ' until that is NULL. p_before selects live jobs that were created by then, and ended jobs that ended by then; pass the time of the first call,'
    ' so that later jobs are not included. p_flow_key is the key of limits and order (per). p_error is a part of last_error. Without p_statuses,'
    ' all that the verb can change; of retry, failed jobs only. Without any filter it needs p_everything. changed counts the jobs that it'
    ' changed; asked, those of them that run and were asked to stop; unchanged, those that a live job with their key blocks, or that were'
    ' asked before; skipped, those that another transaction had locked.';
REVOKE ALL ON FUNCTION howdah.change_selected FROM PUBLIC;
