CREATE OR REPLACE FUNCTION howdah.compact_counts(p_rows int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_folded int;
BEGIN
    IF (SELECT count(*) FROM (SELECT FROM howdah.archive_counts LIMIT p_rows) AS differences) < p_rows
        -- A rotation or a prune at the same time would miss what is folded here.
        OR NOT howdah.has_segments()
    THEN
        RETURN 0;
    END IF;
    WITH folded AS (
        DELETE FROM howdah.archive_counts RETURNING segment, day, job_type, status, jobs
    ), kept AS (
        INSERT INTO howdah.archive_counts (segment, day, job_type, status, jobs)
        SELECT f.segment, f.day, f.job_type, f.status, sum(f.jobs) FROM folded AS f
        GROUP BY f.segment, f.day, f.job_type, f.status
        HAVING sum(f.jobs) <> 0
    )
    SELECT count(*) INTO v_folded FROM folded;
    RETURN v_folded;
END
$$;
COMMENT ON FUNCTION howdah.compact_counts IS 'Folds the appended differences of archive_counts once there are p_rows of them. Returns how many it folded.';
REVOKE ALL ON FUNCTION howdah.compact_counts FROM PUBLIC;
