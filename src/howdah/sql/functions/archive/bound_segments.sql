-- With a valid constraint on the time of the end, the planner skips segments that a query need not read. Adding the constraint takes
-- a lock for a moment, and is postponed if a transaction reads the segment. Reading the rows takes time in proportion to their
-- number, so that never happens under such a lock: all ends are found before the first constraint is added, and a later call
-- validates it.
CREATE OR REPLACE FUNCTION howdah.bound_segments() RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
SET timezone = 'UTC'
SET datestyle = 'ISO'
AS $$
DECLARE
    v_segment record;
    v_first timestamptz;
    v_last timestamptz;
    v_bounds jsonb;
    v_done int := 0;
BEGIN
    IF NOT howdah.has_segments() THEN
        RETURN 0;
    END IF;
    FOR v_segment IN
        SELECT s.number FROM howdah.segments AS s
        WHERE s.closed_at IS NOT NULL AND s.first_end IS NULL AND to_regclass('howdah.archive_' || s.number) IS NOT NULL
    LOOP
        EXECUTE format('SELECT min(finished_at), max(finished_at) FROM howdah.%I', 'archive_' || v_segment.number) INTO v_first, v_last;
        -- Both are NULL for a segment whose jobs were all deleted, or retried.
        UPDATE howdah.segments AS s SET first_end = v_first, last_end = v_last WHERE s.number = v_segment.number;
    END LOOP;

    SELECT jsonb_object_agg(t.name, k.convalidated) INTO v_bounds
    FROM howdah.segments AS s
    CROSS JOIN LATERAL (SELECT 'archive_' || s.number AS name) AS t
    LEFT JOIN pg_catalog.pg_constraint AS k ON k.conrelid = to_regclass('howdah.' || t.name) AND k.conname = 'archive_ends'
    WHERE s.first_end IS NOT NULL AND to_regclass('howdah.' || t.name) IS NOT NULL;

    FOR v_segment IN
        SELECT 'archive_' || s.number AS name, s.first_end, s.last_end FROM howdah.segments AS s
        WHERE v_bounds -> ('archive_' || s.number) = 'null' ORDER BY s.number
    LOOP
        BEGIN
            EXECUTE format(
                'ALTER TABLE howdah.%I ADD CONSTRAINT archive_ends CHECK (finished_at >= %L AND finished_at <= %L) NOT VALID',
                v_segment.name, v_segment.first_end, v_segment.last_end
            );
            v_done := v_done + 1;
        EXCEPTION
            WHEN lock_not_available THEN
                NULL;
        END;
    END LOOP;
    IF v_done > 0 THEN
        RETURN v_done;
    END IF;

    FOR v_segment IN SELECT b.key AS name FROM jsonb_each(v_bounds) AS b WHERE b.value = 'false' ORDER BY b.key LOOP
        BEGIN
            EXECUTE format('ALTER TABLE howdah.%I VALIDATE CONSTRAINT archive_ends', v_segment.name);
            v_done := v_done + 1;
        EXCEPTION
            WHEN lock_not_available THEN
                NULL;
        END;
    END LOOP;
    RETURN v_done;
END
$$;
COMMENT ON FUNCTION howdah.bound_segments IS
    'Records when the first and the last job of each closed segment ended, and adds this as a constraint; the next call validates it.'
    ' Returns how many segments it changed: call it, each time in a transaction of its own, until that is 0.';
REVOKE ALL ON FUNCTION howdah.bound_segments FROM PUBLIC;
