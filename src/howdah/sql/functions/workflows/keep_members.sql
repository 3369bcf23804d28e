CREATE OR REPLACE FUNCTION howdah.keep_members(p_segment int) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_table text := 'archive_' || p_segment;
    v_columns text;
    v_kept int := 0;
BEGIN
    IF to_regclass('howdah.' || v_table) IS NULL OR NOT EXISTS (SELECT FROM howdah.workflows AS w WHERE w.finished_at IS NULL) THEN
        RETURN 0;
    END IF;
    SELECT string_agg(format('%I', a.attname), ', ' ORDER BY a.attnum) INTO v_columns
    FROM pg_catalog.pg_attribute AS a WHERE a.attrelid = 'howdah.archive'::regclass AND a.attnum > 0 AND NOT a.attisdropped;
    -- The DELETE takes them out of the counts of their segment: see archive_deleted.
    EXECUTE format(
        'WITH moved AS ('
        '    DELETE FROM howdah.%I AS a USING howdah.workflows AS w WHERE w.id = a.workflow_id AND w.finished_at IS NULL RETURNING a.*'
        '), kept AS ('
        '    INSERT INTO howdah.archive_open (%s) SELECT %s FROM moved'
        '), counted AS ('
        '    INSERT INTO howdah.archive_counts (day, job_type, status, jobs)'
        '    SELECT (m.finished_at AT TIME ZONE ''UTC'')::date, m.job_type, m.status, count(*) FROM moved AS m GROUP BY 1, 2, 3'
        ') SELECT count(*) FROM moved', v_table, v_columns, v_columns
    ) INTO v_kept;
    RETURN v_kept;
END
$$;
COMMENT ON FUNCTION howdah.keep_members IS
    'Moves the jobs of workflows that have not ended from a segment that is about to be dropped to the open one. Part of prune. Internal.';
REVOKE ALL ON FUNCTION howdah.keep_members FROM PUBLIC;
