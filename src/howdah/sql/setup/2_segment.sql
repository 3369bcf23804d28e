-- The rows that all functions rely on. After a restore without data, the tables exist without them.
DO $$
DECLARE
    v_number int;
BEGIN
    INSERT INTO howdah.settings DEFAULT VALUES ON CONFLICT DO NOTHING;
    INSERT INTO howdah.segments (number, opened_at, closed_at)
    SELECT substring(c.relname FROM '[0-9]+$')::int, howdah.clock(), howdah.clock()
    FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.inhrelid
    WHERE i.inhparent = 'howdah.archive'::regclass AND c.relname ~ '^archive_[0-9]{1,9}$'
    ON CONFLICT DO NOTHING;
    SELECT coalesce(max(s.number), 0) + 1 INTO v_number FROM howdah.segments AS s WHERE s.closed_at IS NOT NULL;
    IF to_regclass('howdah.archive_open') IS NOT NULL THEN
        -- The names of its indexes contain its number.
        SELECT greatest(v_number, max(substring(c.relname FROM '^archive_([0-9]{1,9})_id$')::int)) INTO v_number
        FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'howdah.archive_open'::regclass;
        INSERT INTO howdah.segments (number, opened_at)
        SELECT v_number, howdah.clock() WHERE NOT EXISTS (SELECT FROM howdah.segments AS s WHERE s.closed_at IS NULL);
        v_number := v_number + 1;
    END IF;
    IF to_regclass('howdah.archive_next') IS NULL THEN
        PERFORM howdah.make_segment(v_number);
    END IF;
    IF to_regclass('howdah.archive_open') IS NULL THEN
        PERFORM howdah.open_segment(v_number);
    END IF;
    -- No stream_no may be used twice.
    PERFORM setval('howdah.event_counter', e.stream_no)
    FROM (SELECT e.stream_no FROM howdah.events AS e ORDER BY e.stream_no DESC LIMIT 1) AS e, howdah.event_counter AS c
    WHERE e.stream_no > c.last_value;
END
$$;
