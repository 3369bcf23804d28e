-- Every table there is, so that none is forgotten. DELETE, because TRUNCATE makes a new file for each table
-- and each index: a hundred times slower where there is next to nothing to remove.
SET LOCAL lock_timeout = '2s';
DO $$
DECLARE
    v_table regclass;
BEGIN
    FOR v_table IN
        SELECT c.oid FROM pg_class AS c
        WHERE c.relnamespace = to_regnamespace('howdah') AND c.relkind IN ('r', 'p') AND NOT c.relispartition
            AND c.relname <> 'schema_version'
    LOOP
        EXECUTE format('DELETE FROM %s', v_table);
    END LOOP;
    INSERT INTO howdah.settings DEFAULT VALUES;
END
$$;
