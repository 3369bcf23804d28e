CREATE OR REPLACE FUNCTION howdah.plain_truncate() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    -- Not if only the parent was truncated, which is always empty.
    IF NOT EXISTS (SELECT FROM howdah.jobs) THEN
        DELETE FROM howdah.archive_counts;
        PERFORM howdah.end_all_workflows('its jobs were removed by TRUNCATE');
        TRUNCATE howdah.events;
        DELETE FROM howdah.steps;
        DELETE FROM howdah.signal_channels AS c WHERE NOT EXISTS (SELECT FROM howdah.signals AS s WHERE s.signal = c.signal AND s.key = c.key);
    END IF;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.plain_truncate IS 'Deletes the counts, events and steps of jobs that a TRUNCATE removed.';
REVOKE ALL ON FUNCTION howdah.plain_truncate FROM PUBLIC;
