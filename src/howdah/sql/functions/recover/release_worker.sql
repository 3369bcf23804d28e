-- All jobs at once; if that raises an error, one by one, as in recover_cause.
CREATE OR REPLACE FUNCTION howdah.release_worker(p_worker_id varchar, p_limit int DEFAULT NULL)
RETURNS TABLE (id uuid, status varchar, reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_tokens bigint[];
    v_id uuid;
BEGIN
    BEGIN
        SELECT array_agg(h.id), array_agg(h.token) INTO v_ids, v_tokens FROM (
            SELECT j.id, j.token FROM howdah.live AS j
            WHERE j.worker_id = p_worker_id AND j.status IN ('claimed', 'running')
            -- A locked row is being written right now; the next sweep finds it if it is still held then.
            ORDER BY j.id LIMIT p_limit FOR UPDATE SKIP LOCKED
        ) AS h;
        RETURN QUERY SELECT * FROM howdah.end_overdue('worker died', v_ids, v_tokens);
        RETURN;
    EXCEPTION
        WHEN others THEN
            IF howdah.is_passing(SQLSTATE) THEN
                RAISE;
            END IF;
    END;

    FOR v_id IN
        SELECT j.id FROM howdah.live AS j
        WHERE j.worker_id = p_worker_id AND j.status IN ('claimed', 'running')
        ORDER BY random() LIMIT p_limit
    LOOP
        BEGIN
            SELECT ARRAY[j.id], ARRAY[j.token] INTO v_ids, v_tokens FROM howdah.live AS j
            WHERE j.id = v_id AND j.worker_id = p_worker_id AND j.status IN ('claimed', 'running')
            FOR UPDATE SKIP LOCKED;
            RETURN QUERY SELECT * FROM howdah.end_overdue('worker died', v_ids, v_tokens);
        EXCEPTION
            WHEN others THEN
                IF howdah.is_passing(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'job % of the dead worker % could not be recovered: %', v_id, p_worker_id, SQLERRM;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.release_worker IS
    'Releases the jobs of a dead worker: all, or at most p_limit. A job whose release raises an error is left out, with a warning. Internal.';
REVOKE ALL ON FUNCTION howdah.release_worker FROM PUBLIC;
