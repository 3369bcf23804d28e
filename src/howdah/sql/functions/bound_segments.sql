-- From a bound that is known to hold, the planner sees which segments a query by the time of the end need not read. To add it
-- takes a lock for a moment, and is left for later if somebody reads the segment; to look at the rows holds up nothing.
CREATE OR REPLACE FUNCTION howdah.bound_segments() RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_number int;
    v_table text;
    v_first timestamptz;
    v_last timestamptz;
    v_bound int := 0;
BEGIN
    IF NOT howdah.has_segments() THEN
        RETURN 0;
    END IF;
    FOR v_number, v_first, v_last IN
        SELECT s.number, s.first_end, s.last_end FROM howdah.segments AS s
        WHERE s.closed_at IS NOT NULL AND to_regclass('howdah.archive_' || s.number) IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_constraint AS c
            WHERE c.conrelid = to_regclass('howdah.archive_' || s.number) AND c.conname = 'archive_ends' AND c.convalidated
        )
        ORDER BY s.number
    LOOP
        v_table := 'archive_' || v_number;
        IF v_first IS NULL THEN
            EXECUTE format('SELECT min(finished_at), max(finished_at) FROM howdah.%I', v_table) INTO v_first, v_last;
            -- One whose jobs were all deleted, or retried.
            CONTINUE WHEN v_first IS NULL;
            UPDATE howdah.segments AS s SET first_end = v_first, last_end = v_last WHERE s.number = v_number;
        END IF;
        BEGIN
            EXECUTE format(
                'ALTER TABLE howdah.%1$I DROP CONSTRAINT IF EXISTS archive_ends,'
                ' ADD CONSTRAINT archive_ends CHECK (finished_at >= %2$L AND finished_at <= %3$L) NOT VALID', v_table, v_first, v_last
            );
            EXECUTE format('ALTER TABLE howdah.%I VALIDATE CONSTRAINT archive_ends', v_table);
            v_bound := v_bound + 1;
        EXCEPTION
            WHEN lock_not_available THEN
                NULL;
        END;
    END LOOP;
    RETURN v_bound;
END
$$;
COMMENT ON FUNCTION howdah.bound_segments IS
    'Finds out when the first and the last job of a closed segment ended, and adds it as a constraint. Returns for how many it could.';
REVOKE ALL ON FUNCTION howdah.bound_segments FROM PUBLIC;
