-- The day's own tables are locked before the archive and the events are: a reader with an open transaction makes that
-- fail within 100 ms, and completions, which never touch an old day, do not notice the try.
CREATE OR REPLACE FUNCTION howdah.prune(p_keep interval DEFAULT NULL)
RETURNS TABLE (day date, dropped boolean, reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
AS $$
DECLARE
    v_cutoff timestamptz;
    v_name text;
    v_tables text;
BEGIN
    IF p_keep < '0' THEN
        RAISE EXCEPTION 'cannot keep jobs for %', p_keep USING ERRCODE = 'JQ001';
    END IF;
    v_cutoff := howdah.clock() - coalesce(p_keep, (SELECT s.archive_retention FROM howdah.settings AS s));
    -- A day of the archive and the same day of the events go together.
    FOR day IN
        SELECT DISTINCT to_date(right(c.relname, 8), 'YYYYMMDD')
        FROM pg_catalog.pg_inherits AS i
        JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent IN ('howdah.archive'::regclass, 'howdah.events'::regclass)
            AND c.relname ~ '^(archive|events)_[0-9]{8}$'
            AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' <= v_cutoff
        ORDER BY 1
    LOOP
        v_name := to_char(day, 'YYYYMMDD');
        BEGIN
            SELECT string_agg(format('howdah.%I', t.kind || v_name), ', ') INTO v_tables
            FROM (VALUES ('archive_'), ('events_')) AS t (kind) WHERE to_regclass('howdah.' || t.kind || v_name) IS NOT NULL;
            -- Another prune was faster.
            CONTINUE WHEN v_tables IS NULL;
            EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_tables);
            EXECUTE format('DROP TABLE %s', v_tables);
            -- Whoever folds the counts right now would bring back what is deleted here.
            PERFORM pg_advisory_xact_lock(hashtextextended('howdah.compact_counts', 0));
            DELETE FROM howdah.archive_counts AS n WHERE n.day = to_date(v_name, 'YYYYMMDD');
            dropped := true;
            reason := NULL;
        EXCEPTION
            WHEN lock_not_available THEN
                dropped := false;
                -- State and time are not told of somebody else's session.
                SELECT 'in use by ' || string_agg(DISTINCT format('pid %s (%s)', a.pid, concat_ws(
                    ', ', coalesce(nullif(a.application_name, ''), 'unnamed'), a.state,
                    'since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
                )), ', ')
                INTO reason
                FROM pg_catalog.pg_locks AS l JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
                WHERE l.relation IN (
                    to_regclass('howdah.archive_' || v_name), to_regclass('howdah.events_' || v_name),
                    'howdah.archive'::regclass, 'howdah.events'::regclass
                )
                    AND l.granted AND l.pid <> pg_backend_pid();
                reason := coalesce(reason, 'in use a moment ago');
            WHEN undefined_table THEN
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
        DELETE FROM howdah.events_default AS e WHERE e.at < v_cutoff;
    EXCEPTION
        WHEN lock_not_available THEN
            -- What was dropped stays dropped; these few wait for the next call.
            NULL;
    END;
END
$$;
COMMENT ON FUNCTION howdah.prune IS
    'Drops the days of the archive, and of the events, that ended longer ago than p_keep (settings.archive_retention if not given). Returns what it'
    ' did; what was in use is left for the next call.';
REVOKE ALL ON FUNCTION howdah.prune FROM PUBLIC;
