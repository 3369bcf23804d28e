-- Closes the open segment and opens the next: LOCK, RENAME, and CREATE of the one after it. Functions find the tables by their names.
-- Nothing depends on a rotation: without one the open segment just grows.
--
-- While this waits for its lock, every call that ends a job waits too. So the wait is short, and a transaction that holds one of the
-- tables (it has read jobs, or ended one, and is still open) postpones the rotation until the next call.
CREATE OR REPLACE FUNCTION howdah.rotate(p_keep interval DEFAULT NULL) RETURNS TABLE (segment int, opened_at timestamptz, closed boolean, reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- For each lock by itself. A transaction that read jobs or events holds all of the tables, so the first wait usually decides.
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_keep interval := howdah.clamp_interval(coalesce(p_keep, (SELECT s.archive_retention FROM howdah.settings AS s)));
    v_closed int := (SELECT count(*) FROM howdah.segments AS s WHERE s.closed_at IS NOT NULL);
    v_bytes bigint;
    v_merged bigint;
BEGIN
    IF NOT howdah.has_segments() THEN
        RETURN;
    END IF;
    SELECT s.number, s.opened_at INTO segment, opened_at FROM howdah.segments AS s WHERE s.closed_at IS NULL;
    v_bytes := pg_relation_size('howdah.archive_open') + pg_relation_size('howdah.events_open');
    -- Twelve segments make up the retention time; four more may be opened earlier because of their size. After the clock was set
    -- back, a segment seems young for a long time: then the size decides.
    IF v_bytes = 0 OR v_closed >= 16
        OR (v_keep > '0' AND opened_at > howdah.clock() - greatest(v_keep / 12, interval '5 seconds')
            AND (v_bytes < 4::bigint << 30 OR v_closed >= 4))
    THEN
        RETURN;
    END IF;
    closed := true;
    BEGIN
        LOCK TABLE howdah.events_open, howdah.archive_open, howdah.events_next, howdah.archive_next IN ACCESS EXCLUSIVE MODE;
        UPDATE howdah.segments AS s SET
            closed_at = howdah.clock(),
            first_id = (SELECT a.id FROM howdah.archive_open AS a ORDER BY a.id LIMIT 1),
            last_id = (SELECT a.id FROM howdah.archive_open AS a ORDER BY a.id DESC LIMIT 1)
        WHERE s.number = segment;
        EXECUTE format('ALTER TABLE howdah.archive_open RENAME TO %I', 'archive_' || segment);
        EXECUTE format('ALTER TABLE howdah.events_open RENAME TO %I', 'events_' || segment);
        PERFORM howdah.open_segment(segment + 1);
        -- Everything that was counted for the open segment has been committed: a writer holds a lock on its table until it commits.
        WITH merged AS (
            DELETE FROM howdah.archive_counts AS c WHERE c.segment = 0 RETURNING c.day, c.job_type, c.status, c.jobs
        ), kept AS (
            INSERT INTO howdah.archive_counts (segment, day, job_type, status, jobs)
            SELECT rotate.segment, f.day, f.job_type, f.status, sum(f.jobs) FROM merged AS f
            GROUP BY f.day, f.job_type, f.status
        )
        SELECT count(*) INTO v_merged FROM merged;
    EXCEPTION
        WHEN lock_not_available THEN
            closed := false;
            reason := howdah.segment_users(ARRAY[
                'archive_open', 'events_open', 'archive_next', 'events_next', 'archive', 'events', 'archive_counts'
            ]);
    END;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.rotate IS
    'Closes the open segment of the archive and of the events, and opens the next, if it is old or large enough: a twelfth of p_keep'
    ' (settings.archive_retention if not given), or 4 GB while fewer than four are closed. Returns what it did, if it tried; tables in use are'
    ' left for the next call.';
REVOKE ALL ON FUNCTION howdah.rotate FROM PUBLIC;
