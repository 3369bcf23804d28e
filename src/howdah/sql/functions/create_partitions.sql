-- A day's table is made beside the archive and then attached, which completions do not notice; only
-- the default partition is locked for it, for at most 100 ms, and that is empty as a rule.
CREATE OR REPLACE FUNCTION howdah.create_partitions() RETURNS TABLE (day date, created boolean, reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '100ms'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_today date := (howdah.clock() AT TIME ZONE 'UTC')::date;
    v_ahead int := (SELECT s.archive_days_ahead FROM howdah.settings AS s);
    v_name text;
    v_from timestamptz;
    v_until timestamptz;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('howdah.create_partitions', 0)) THEN
        RETURN;
    END IF;
    FOR day IN
        SELECT d.day FROM (
            SELECT v_today + n AS day FROM generate_series(0, v_ahead) AS n
            UNION
            -- A busy day that has no partition is left alone until it is over.
            SELECT (a.finished_at AT TIME ZONE 'UTC')::date FROM howdah.archive_default AS a
            WHERE a.finished_at < v_today::timestamp AT TIME ZONE 'UTC'
        ) AS d ORDER BY 1
    LOOP
        v_name := 'archive_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN to_regclass('howdah.' || v_name) IS NOT NULL;
        v_from := day::timestamp AT TIME ZONE 'UTC';
        v_until := (day + 1)::timestamp AT TIME ZONE 'UTC';
        BEGIN
            EXECUTE format(
                'CREATE TABLE howdah.%1$I ('
                'LIKE howdah.archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING COMMENTS, '
                'CHECK (finished_at >= %2$L AND finished_at < %3$L))', v_name, v_from, v_until
            );
            EXECUTE format(
                'WITH moved AS (DELETE FROM howdah.archive_default '
                'WHERE finished_at >= %2$L AND finished_at < %3$L RETURNING *) '
                'INSERT INTO howdah.%1$I SELECT * FROM moved', v_name, v_from, v_until
            );
            EXECUTE format(
                'ALTER TABLE howdah.archive ATTACH PARTITION howdah.%1$I FOR VALUES FROM (%2$L) TO (%3$L)',
                v_name, v_from, v_until
            );
            created := true;
            reason := NULL;
        EXCEPTION
            WHEN lock_not_available OR check_violation THEN
                created := false;
                reason := SQLERRM;
        END;
        RETURN NEXT;
        -- Whoever is in the way of one day is in the way of the next ones, and has been waited for.
        EXIT WHEN NOT created;
    END LOOP;
END
$$;
COMMENT ON FUNCTION howdah.create_partitions IS
    'Makes the archive''s partitions of the days ahead. Returns what it did; what it could not do is done by the next call.';
REVOKE ALL ON FUNCTION howdah.create_partitions FROM PUBLIC;
