-- The day's own table is locked before the archive is: a reader with an open transaction makes that
-- fail within 100 ms, and completions, which never touch an old day, do not notice the try.
CREATE OR REPLACE FUNCTION howdah.prune(p_keep interval DEFAULT NULL)
RETURNS TABLE (day date, dropped boolean, reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    v_cutoff timestamptz;
    v_name name;
BEGIN
    IF p_keep < '0' THEN
        RAISE EXCEPTION 'cannot keep jobs for %', p_keep USING ERRCODE = 'JQ001';
    END IF;
    v_cutoff := howdah.clock() - coalesce(p_keep, (SELECT s.archive_retention FROM howdah.settings AS s));
    FOR v_name, day IN
        SELECT c.relname, to_date(right(c.relname, 8), 'YYYYMMDD')
        FROM pg_catalog.pg_inherits AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = 'howdah.archive'::regclass AND c.relname ~ '^archive_[0-9]{8}$'
            AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= v_cutoff
        ORDER BY c.relname
    LOOP
        BEGIN
            EXECUTE format('LOCK TABLE howdah.%I IN ACCESS EXCLUSIVE MODE', v_name);
            EXECUTE format('DROP TABLE howdah.%I', v_name);
            -- Whoever folds the counts right now would bring back what is deleted here.
            PERFORM pg_advisory_xact_lock(hashtextextended('howdah.compact_counts', 0));
            DELETE FROM howdah.archive_counts AS n WHERE n.day = to_date(right(v_name, 8), 'YYYYMMDD');
            dropped := true;
            reason := NULL;
        EXCEPTION
            WHEN lock_not_available THEN
                dropped := false;
                SELECT 'in use by ' || string_agg(DISTINCT format(
                    'pid %s (%s, %s, since %s)', a.pid, coalesce(nullif(a.application_name, ''), 'unnamed'),
                    a.state, to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
                ), ', ')
                INTO reason
                FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
                WHERE l.relation IN (('howdah.' || v_name)::regclass, 'howdah.archive'::regclass)
                    AND l.granted AND l.pid <> pg_backend_pid();
                reason := coalesce(reason, 'in use a moment ago');
            WHEN undefined_table THEN
                -- Another prune was faster.
                CONTINUE;
        END;
        RETURN NEXT;
    END LOOP;

    BEGIN
        WITH gone AS (
            DELETE FROM howdah.archive_default AS a WHERE a.finished_at < v_cutoff
            RETURNING a.finished_at, a.job_type, a.status
        )
        INSERT INTO howdah.archive_counts (day, job_type, status, jobs)
        SELECT (gone.finished_at AT TIME ZONE 'UTC')::date, gone.job_type, gone.status, -count(*)
        FROM gone GROUP BY 1, 2, 3;
    EXCEPTION
        WHEN lock_not_available THEN
            -- What was dropped stays dropped; these few wait for the next call.
            NULL;
    END;
END
$$;
COMMENT ON FUNCTION howdah.prune IS
    'Drops the archive''s days that ended longer ago than p_keep (settings.archive_retention if not given). Returns what it'
    ' did; what was in use is left for the next call.';
REVOKE ALL ON FUNCTION howdah.prune FROM PUBLIC;
