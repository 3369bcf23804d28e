-- Also for an explicit NULL: columns that are nullable in a plain table always have a value here.
CREATE OR REPLACE FUNCTION howdah.plain_defaults() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_priority int;
    v_max_attempts int;
BEGIN
    PERFORM howdah.check_job_type(NEW.job_type);
    IF pg_column_size(NEW.data) > 65536 THEN
        PERFORM howdah.check_size(ARRAY[NEW.data], 'data');
    END IF;
    IF NEW.priority IS NULL OR NEW.max_attempts IS NULL THEN
        SELECT t.priority, t.max_attempts INTO v_priority, v_max_attempts FROM howdah.types AS t WHERE t.job_type = NEW.job_type;
        NEW.priority := coalesce(NEW.priority, v_priority, 100);
        NEW.max_attempts := coalesce(NEW.max_attempts, v_max_attempts, 3);
    END IF;
    IF NEW.id IS NULL THEN
        NEW.id := howdah.new_id();
    ELSIF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'inserting a job with an id of your own needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001',
            HINT = 'A stricter transaction cannot see a job of this id that ended meanwhile. Leave id out, and the database makes one.';
    END IF;
    NEW.progress := coalesce(NEW.progress, 0);
    NEW.events_count := coalesce(NEW.events_count, 0);
    NEW.attempts := coalesce(NEW.attempts, 0);
    NEW.created_at := coalesce(NEW.created_at, howdah.clock());
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.plain_defaults IS 'Fills in the columns that an INSERT INTO jobs leaves out, with the defaults of the type.';
REVOKE ALL ON FUNCTION howdah.plain_defaults FROM PUBLIC;
