-- The next segment existed before, empty. A reader of jobs or events first lists the child tables, then locks them: a reader that
-- waits here for a rotation has the next segment on its list already, and misses nothing that was added to it meanwhile.
CREATE OR REPLACE FUNCTION howdah.open_segment(p_number int) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
BEGIN
    ALTER TABLE howdah.archive_next RENAME TO archive_open;
    ALTER TABLE howdah.events_next RENAME TO events_open;
    INSERT INTO howdah.segments (number, opened_at) VALUES (p_number, howdah.clock());
    PERFORM howdah.make_segment(p_number + 1);
END
$$;
COMMENT ON FUNCTION howdah.open_segment IS
    'From now on ended jobs and events are added to the next segment; creates the one after it. Part of rotate.';
REVOKE ALL ON FUNCTION howdah.open_segment FROM PUBLIC;
