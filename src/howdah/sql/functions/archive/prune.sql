-- The tables of a segment are locked before they are dropped: if a reader has an open transaction, that fails within 50 ms.
-- Completions never touch a closed segment, so the attempt does not delay them.
CREATE OR REPLACE FUNCTION howdah.prune(p_keep interval DEFAULT NULL)
RETURNS TABLE (segment int, first_end timestamptz, last_end timestamptz, dropped boolean, reason text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_cutoff timestamptz;
    v_tables text;
    v_with_steps uuid[];
BEGIN
    IF p_keep < '0' THEN
        RAISE EXCEPTION 'keep is %, and must not be negative', p_keep USING ERRCODE = 'JQ001';
    END IF;
    v_cutoff := howdah.clock() - howdah.clamp_interval(coalesce(p_keep, (SELECT s.archive_retention FROM howdah.settings AS s)));
    IF NOT howdah.has_segments() THEN
        RETURN;
    END IF;
    FOR segment, first_end, last_end IN
        SELECT s.number, s.first_end, s.last_end FROM howdah.segments AS s
        WHERE coalesce(s.last_end, s.closed_at) <= v_cutoff ORDER BY s.number
    LOOP
        BEGIN
            SELECT string_agg(format('howdah.%I', t.kind || segment), ', ' ORDER BY t.kind DESC) INTO v_tables
            FROM (VALUES ('archive_'), ('events_')) AS t (kind) WHERE to_regclass('howdah.' || t.kind || segment) IS NOT NULL;
            PERFORM howdah.keep_members(segment);
            -- An administrator may have dropped them.
            IF to_regclass('howdah.archive_' || segment) IS NOT NULL AND EXISTS (SELECT FROM howdah.steps) THEN
                -- Before the lock, for which readers would have to wait.
                EXECUTE format(
                    'SELECT ARRAY(SELECT DISTINCT s.job_id FROM howdah.steps AS s WHERE EXISTS (SELECT FROM howdah.%I AS a WHERE a.id = s.job_id))',
                    'archive_' || segment
                ) INTO v_with_steps;
                PERFORM howdah.remove_steps(v_with_steps);
            END IF;
            IF v_tables IS NOT NULL THEN
                EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', v_tables);
                EXECUTE format('DROP TABLE %s', v_tables);
            END IF;
            DELETE FROM howdah.archive_counts AS c WHERE c.segment = prune.segment;
            DELETE FROM howdah.segments AS s WHERE s.number = segment;
            dropped := true;
            reason := NULL;
        EXCEPTION
            WHEN lock_not_available THEN
                dropped := false;
                reason := howdah.segment_users(ARRAY['archive_' || segment, 'events_' || segment, 'archive', 'events', 'archive_counts']);
        END;
        RETURN NEXT;
    END LOOP;
    PERFORM howdah.prune_workflows(v_cutoff);
END
$$;
COMMENT ON FUNCTION howdah.prune IS
    'Drops the segments of the archive, and of the events, with the steps of their jobs, whose last job ended longer ago than p_keep (settings.archive_retention if not given).'
    ' Returns what it did; a segment that was in use is left for the next call.';
REVOKE ALL ON FUNCTION howdah.prune FROM PUBLIC;
