-- A day's table is made beside the archive (or the events) and then attached, which completions do not notice; only
-- the default partition is locked for it, for at most 100 ms, and that is empty as a rule.
CREATE OR REPLACE FUNCTION howdah.create_partitions() RETURNS TABLE (day date, created boolean, reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_today date := (howdah.clock() AT TIME ZONE 'UTC')::date;
    v_ahead int := (SELECT s.archive_days_ahead FROM howdah.settings AS s);
    v_table text;
    v_column text;
    v_name text;
    v_from timestamptz;
    v_until timestamptz;
    v_in_use text[] := '{}';
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('howdah.create_partitions', 0)) THEN
        RETURN;
    END IF;
    FOR v_table, v_column, day IN
        SELECT d.parent, d.moment, d.day FROM (
            SELECT p.parent, p.moment, v_today + n AS day
            FROM (VALUES ('archive', 'finished_at'), ('events', 'at')) AS p (parent, moment)
            CROSS JOIN generate_series(0, v_ahead) AS n
            -- A busy day that has no partition is left alone until it is over.
            UNION
            SELECT 'archive', 'finished_at', (a.finished_at AT TIME ZONE 'UTC')::date FROM howdah.archive_default AS a
            WHERE a.finished_at < v_today::timestamp AT TIME ZONE 'UTC'
            UNION
            SELECT 'events', 'at', (e.at AT TIME ZONE 'UTC')::date FROM howdah.events_default AS e
            WHERE e.at < v_today::timestamp AT TIME ZONE 'UTC'
        ) AS d ORDER BY d.day, d.parent
    LOOP
        v_name := v_table || '_' || to_char(day, 'YYYYMMDD');
        -- Whoever is in the way of one day is in the way of the next ones, and has been waited for.
        CONTINUE WHEN v_table = ANY (v_in_use) OR to_regclass('howdah.' || v_name) IS NOT NULL;
        v_from := day::timestamp AT TIME ZONE 'UTC';
        v_until := (day + 1)::timestamp AT TIME ZONE 'UTC';
        BEGIN
            EXECUTE format(
                'CREATE TABLE howdah.%1$I ('
                'LIKE howdah.%4$I INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS, '
                'CHECK (%5$I >= %2$L AND %5$I < %3$L))', v_name, v_from, v_until, v_table, v_column
            );
            EXECUTE format(
                'WITH moved AS (DELETE FROM howdah.%4$I '
                'WHERE %5$I >= %2$L AND %5$I < %3$L RETURNING *) '
                'INSERT INTO howdah.%1$I SELECT * FROM moved', v_name, v_from, v_until, v_table || '_default', v_column
            );
            EXECUTE format(
                'ALTER TABLE howdah.%4$I ATTACH PARTITION howdah.%1$I FOR VALUES FROM (%2$L) TO (%3$L)',
                v_name, v_from, v_until, v_table
            );
            created := true;
            reason := NULL;
        EXCEPTION
            WHEN lock_not_available OR check_violation THEN
                created := false;
                reason := SQLERRM;
                v_in_use := v_in_use || v_table;
        END;
        RETURN NEXT;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.create_partitions IS
    'Makes the partitions of the archive and of the events for the days ahead. Returns what it did, for each day and table; what it could not do is done by the next call.';
REVOKE ALL ON FUNCTION howdah.create_partitions FROM PUBLIC;
