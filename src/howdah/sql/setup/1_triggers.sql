-- The triggers for plain SQL clients, created once: replacing one waits for all writers, and blocks those that follow.
-- Those of the archive are created with each of its segments: see make_segment.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'plain_defaults') THEN
        CREATE TRIGGER plain_defaults BEFORE INSERT ON howdah.jobs
            FOR EACH ROW EXECUTE FUNCTION howdah.plain_defaults();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'plain_insert') THEN
        CREATE TRIGGER plain_insert AFTER INSERT ON howdah.jobs REFERENCING NEW TABLE AS added
            FOR EACH STATEMENT EXECUTE FUNCTION howdah.plain_insert();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'plain_updated') THEN
        CREATE TRIGGER plain_updated AFTER UPDATE ON howdah.jobs REFERENCING OLD TABLE AS before NEW TABLE AS after
            FOR EACH STATEMENT EXECUTE FUNCTION howdah.plain_updated();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'plain_delete') THEN
        CREATE TRIGGER plain_delete AFTER DELETE ON howdah.jobs REFERENCING OLD TABLE AS gone
            FOR EACH STATEMENT EXECUTE FUNCTION howdah.plain_delete();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.jobs'::regclass AND t.tgname = 'plain_truncate') THEN
        CREATE TRIGGER plain_truncate AFTER TRUNCATE ON howdah.jobs
            FOR EACH STATEMENT EXECUTE FUNCTION howdah.plain_truncate();
    END IF;
    -- PostgreSQL fires them in the order of their names: plain_names_error must come first.
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.live'::regclass AND t.tgname = 'plain_names_error') THEN
        CREATE TRIGGER plain_names_error BEFORE UPDATE OF last_error ON howdah.live
            FOR EACH ROW WHEN (NEW.own_write = OLD.own_write) EXECUTE FUNCTION howdah.plain_names_error();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.live'::regclass AND t.tgname = 'plain_update') THEN
        CREATE TRIGGER plain_update BEFORE UPDATE ON howdah.live
            FOR EACH ROW WHEN (NEW.own_write = OLD.own_write) EXECUTE FUNCTION howdah.plain_update();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.workflow_deltas'::regclass AND t.tgname = 'fold_at_commit') THEN
        CREATE CONSTRAINT TRIGGER fold_at_commit AFTER INSERT ON howdah.workflow_deltas DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW EXECUTE FUNCTION howdah.fold_at_commit();
    END IF;
    IF NOT EXISTS (SELECT FROM pg_catalog.pg_trigger AS t WHERE t.tgrelid = 'howdah.claimable'::regclass) THEN
        CREATE TRIGGER claimable_unchanged INSTEAD OF INSERT OR UPDATE OR DELETE ON howdah.claimable
            FOR EACH ROW EXECUTE FUNCTION howdah.claimable_unchanged();
    END IF;
END
$$;
