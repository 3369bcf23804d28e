CREATE OR REPLACE FUNCTION howdah.adopt(p_table regclass) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    v_adopted bigint;
BEGIN
    EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', p_table);
    EXECUTE format(
        'INSERT INTO howdah.jobs (id, job_type, priority, status, data, progress, current_stage, events_count, worker_id, '
        'claimed_at, created_at, started_at, completed_at, attempts, max_attempts, last_error) '
        'SELECT id, job_type, priority, status, data, progress, current_stage, events_count, worker_id, '
        'claimed_at, created_at, started_at, completed_at, attempts, max_attempts, last_error '
        'FROM %s ORDER BY created_at, id', p_table
    );
    GET DIAGNOSTICS v_adopted = ROW_COUNT;
    EXECUTE format(
        'CREATE TRIGGER adopted_unchanged BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON %s '
        'FOR EACH STATEMENT EXECUTE FUNCTION howdah.adopted_unchanged()', p_table
    );
    RETURN v_adopted;
END
$$;
COMMENT ON FUNCTION howdah.adopt IS
    'Copies the jobs of a plain table with the columns of jobs, and blocks further writes to it. Ended jobs count as ended now, so'
    ' that retention keeps them.';
REVOKE ALL ON FUNCTION howdah.adopt FROM PUBLIC;
