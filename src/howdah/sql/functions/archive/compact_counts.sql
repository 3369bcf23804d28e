CREATE OR REPLACE FUNCTION howdah.compact_counts(p_rows int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_merged int;
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM howdah.archive_counts LIMIT p_rows) AS differences) < p_rows
        -- A rotation or a prune at the same time would miss the rows that are merged here.
        OR NOT howdah.has_segments()
    THEN
        RETURN 0;
    END IF;
    WITH merged AS (
        DELETE FROM howdah.archive_counts RETURNING segment, day, job_type, status, jobs
    ), kept AS (
        INSERT INTO howdah.archive_counts (segment, day, job_type, status, jobs)
        SELECT f.segment, f.day, f.job_type, f.status, sum(f.jobs) FROM merged AS f
        GROUP BY f.segment, f.day, f.job_type, f.status
        HAVING sum(f.jobs) <> 0
    )
    SELECT count(*) INTO v_merged FROM merged;
    RETURN v_merged;
END
$$;
COMMENT ON FUNCTION howdah.compact_counts IS
    'Merges the appended differences of archive_counts once there are p_rows of them. Returns how many it merged.';
REVOKE ALL ON FUNCTION howdah.compact_counts FROM PUBLIC;
