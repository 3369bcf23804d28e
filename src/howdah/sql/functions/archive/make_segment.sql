CREATE OR REPLACE FUNCTION howdah.make_segment(p_number int) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
BEGIN
    CREATE TABLE howdah.archive_next () INHERITS (howdah.archive);
    -- The names of indexes contain the number, so that only the table is renamed when the segment is opened and closed.
    EXECUTE format('CREATE INDEX %I ON howdah.archive_next (id)', 'archive_' || p_number || '_id');
    EXECUTE format(
        'CREATE INDEX %I ON howdah.archive_next (id) WHERE status <> %L', 'archive_' || p_number || '_unsuccessful', 'completed'
    );
    CREATE TRIGGER archive_unchanged BEFORE UPDATE ON howdah.archive_next
        FOR EACH ROW EXECUTE FUNCTION howdah.archive_unchanged();
    CREATE TRIGGER archive_deleted AFTER DELETE ON howdah.archive_next
        FOR EACH ROW EXECUTE FUNCTION howdah.archive_deleted();

    CREATE TABLE howdah.events_next () INHERITS (howdah.events);
    EXECUTE format('CREATE INDEX %I ON howdah.events_next (job_id, seq)', 'events_' || p_number || '_job');
    EXECUTE format('CREATE INDEX %I ON howdah.events_next (xid)', 'events_' || p_number || '_xid');
    EXECUTE format('CREATE INDEX %I ON howdah.events_next (stream_no)', 'events_' || p_number || '_stream_no');
END
$$;
COMMENT ON FUNCTION howdah.make_segment IS 'Creates the empty tables of the segment that will be opened next. Part of rotate.';
REVOKE ALL ON FUNCTION howdah.make_segment FROM PUBLIC;
