CREATE OR REPLACE FUNCTION howdah.open_segment(p_number int) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
BEGIN
    CREATE TABLE howdah.archive_open () INHERITS (howdah.archive);
    -- Names by the number, so that only the table is renamed when it is closed.
    EXECUTE format('CREATE INDEX %I ON howdah.archive_open (id)', 'archive_' || p_number || '_id');
    EXECUTE format(
        'CREATE INDEX %I ON howdah.archive_open (id) WHERE status <> %L', 'archive_' || p_number || '_unsuccessful', 'completed'
    );
    CREATE TRIGGER archive_unchanged BEFORE UPDATE ON howdah.archive_open
        FOR EACH ROW EXECUTE FUNCTION howdah.archive_unchanged();
    CREATE TRIGGER archive_deleted AFTER DELETE ON howdah.archive_open
        FOR EACH ROW EXECUTE FUNCTION howdah.archive_deleted();

    CREATE TABLE howdah.events_open () INHERITS (howdah.events);
    EXECUTE format('CREATE INDEX %I ON howdah.events_open (job_id, seq)', 'events_' || p_number || '_job');
    EXECUTE format('CREATE INDEX %I ON howdah.events_open (xact)', 'events_' || p_number || '_xact');
    EXECUTE format('CREATE INDEX %I ON howdah.events_open (n)', 'events_' || p_number || '_n');

    INSERT INTO howdah.segments (number, opened_at) VALUES (p_number, howdah.clock());
END
$$;
COMMENT ON FUNCTION howdah.open_segment IS
    'Makes the tables that ended jobs, and what happens to jobs, are added to from now on. Part of rotate.';
REVOKE ALL ON FUNCTION howdah.open_segment FROM PUBLIC;
