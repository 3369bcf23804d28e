-- All tables by a query, so that none is forgotten. DELETE, because TRUNCATE creates a new file for each table and each index: a hundred
-- times slower if there is almost nothing to remove.
SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL lock_timeout = '2s';
DO $$
DECLARE
    v_table regclass;
    v_number int;
BEGIN
    FOR v_table IN
        SELECT c.oid FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace('howdah') AND c.relkind = 'r'
            AND c.relname NOT IN ('schema_version', 'segments', 'clock_mark')
            AND NOT EXISTS (SELECT FROM pg_inherits AS i WHERE i.inhrelid = c.oid)
        -- Last, because the DELETE of an archived job adds a count.
        ORDER BY c.relname = 'archive_counts'
    LOOP
        EXECUTE format('DELETE FROM %s', v_table);
    END LOOP;
    INSERT INTO howdah.settings DEFAULT VALUES;
    UPDATE howdah.clock_mark SET latest = '-infinity';
    FOR v_number IN SELECT s.number FROM howdah.segments AS s WHERE s.closed_at IS NOT NULL LOOP
        EXECUTE format('DROP TABLE howdah.%I, howdah.%I', 'archive_' || v_number, 'events_' || v_number);
        DELETE FROM howdah.segments AS s WHERE s.number = v_number;
    END LOOP;
END
$$;
