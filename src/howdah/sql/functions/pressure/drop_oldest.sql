-- The least important ones first, and of these the one that has been due longest. A job that another transaction has locked, such as one
-- that is being claimed, is passed by.
CREATE OR REPLACE FUNCTION howdah.drop_oldest(p_job_type varchar, p_count int, p_except uuid[] DEFAULT '{}') RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_max int := (SELECT coalesce(t.max_pending, t.declared_max_pending) FROM howdah.types AS t WHERE t.job_type = p_job_type);
    v_ids uuid[] := '{}';
    v_priority bigint := -2147483649;
    -- Dropped jobs leave dead index entries behind, just where the next drop begins: see backlog_excess.
    v_since timestamptz := (
        SELECT c.oldest FROM howdah.backlog_counts AS c
        WHERE c.job_type = p_job_type AND c.counted_at > clock_timestamp() - interval '1 minute' ORDER BY c.counted_no DESC LIMIT 1
    );
BEGIN
    WHILE cardinality(v_ids) < p_count LOOP
        v_priority := (
            SELECT j.priority FROM howdah.live AS j
            WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts AND j.priority > v_priority
            ORDER BY j.priority LIMIT 1
        );
        EXIT WHEN v_priority IS NULL;
        v_ids := v_ids || ARRAY(
            SELECT j.id FROM howdah.live AS j
            WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts AND j.priority = v_priority
                AND j.run_at >= coalesce(v_since, '-infinity')
                -- Hashed: it may be as long as a bulk.
                AND j.id NOT IN (SELECT e.id FROM unnest(p_except) AS e (id))
            ORDER BY j.run_at, j.id
            LIMIT p_count - cardinality(v_ids)
            FOR UPDATE SKIP LOCKED
        );
    END LOOP;
    IF v_ids <> '{}' THEN
        UPDATE howdah.live AS j SET token = howdah.next_token(j.token), own_write = NOT j.own_write WHERE j.id = ANY (v_ids);
        PERFORM howdah.archive_jobs(
            v_ids, array_fill('cancelled'::varchar, ARRAY[cardinality(v_ids)]),
            array_fill(format('dropped: at most %s jobs of type %s may wait', v_max, p_job_type), ARRAY[cardinality(v_ids)])
        );
    END IF;
    RETURN cardinality(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.drop_oldest IS
    'Cancels so many jobs of a type that wait, the oldest ones of the lowest priority first, except for those in p_except. Returns how many there'
    ' were. Part of make_room. Internal.';
REVOKE ALL ON FUNCTION howdah.drop_oldest FROM PUBLIC;
