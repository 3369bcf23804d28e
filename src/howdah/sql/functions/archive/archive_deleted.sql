CREATE OR REPLACE FUNCTION howdah.archive_deleted() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    INSERT INTO howdah.archive_counts (segment, day, job_type, status, jobs)
    VALUES (
        coalesce(substring(TG_TABLE_NAME FROM '[0-9]+$')::int, 0), (OLD.finished_at AT TIME ZONE 'UTC')::date, OLD.job_type,
        OLD.status, -1
    );
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.archive_deleted IS 'Counts a job that leaves its segment: by retry, or because a plain client deletes it.';
REVOKE ALL ON FUNCTION howdah.archive_deleted FROM PUBLIC;
