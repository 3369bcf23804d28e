-- A job that fails must fail, whatever becomes of the other one: an error that is not of the server is a warning. The new job is added
-- even if its type is full.
CREATE OR REPLACE FUNCTION howdah.enqueue_on_failure(p_ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_job record;
    v_failed jsonb;
    v_largest int := (SELECT s.max_payload_bytes FROM howdah.settings AS s);
BEGIN
    FOR v_job IN
        SELECT a.id, a.job_type, a.last_error, a.data, a.attempts, t.on_failure
        FROM howdah.archive_open AS a JOIN howdah.types AS t ON t.job_type = a.job_type
        WHERE a.id = ANY (p_ids) AND t.on_failure IS NOT NULL
            -- It was added by this function itself: two types that name each other would never end.
            AND NOT coalesce(a.meta ? 'failed_job', false)
        ORDER BY a.id
    LOOP
        BEGIN
            v_failed := jsonb_build_object(
                'id', v_job.id, 'job_type', v_job.job_type, 'error', v_job.last_error, 'data', v_job.data, 'attempts', v_job.attempts
            );
            -- With the data it may be larger than a job may be.
            IF pg_column_size(v_failed) > v_largest - 1000 THEN
                v_failed := v_failed || '{"data": null}';
            END IF;
            PERFORM howdah.enqueue(
                v_job.on_failure, jsonb_build_object('failed', v_failed), p_meta => jsonb_build_object('failed_job', v_job.id), p_bounded => false
            );
        EXCEPTION
            WHEN others THEN
                IF howdah.is_passing(SQLSTATE) THEN
                    RAISE;
                END IF;
                RAISE WARNING 'job % has failed, and no job of type % could be added: %', v_job.id, v_job.on_failure, SQLERRM;
        END;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.enqueue_on_failure IS
    'Adds a job for each of these jobs, which have just failed, if their types have on_failure. Internal.';
REVOKE ALL ON FUNCTION howdah.enqueue_on_failure FROM PUBLIC;
