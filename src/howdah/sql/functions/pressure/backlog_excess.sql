-- A bound may be exceeded by what is in flight: transactions that have not committed are not seen. Otherwise it is exact up to 1,000: the
-- jobs that wait are counted for each call, which takes 0.2 ms at most.
--
-- Above that, a count is stored, and serves all producers for a second at most. Jobs that are added meanwhile take numbers from a
-- sequence, which no open transaction holds up; the numbers of all types come from the same one, so a busy type only makes others count
-- more often. Jobs that leave, or come back from an attempt, are noticed by the next count. If that finds a type full, or less than one in
-- a thousand free, the next one comes after ten times as long as it took. So counting takes no more than a tenth of the time, or 0.2 ms
-- for each job that is added.
--
-- An old transaction keeps the index entries of claimed jobs from being vacuumed, and a count passes all of them. So a count begins
-- at the oldest job of the one before. It would miss a job that came back with an earlier due time: now and then one counts all.
CREATE OR REPLACE FUNCTION howdah.backlog_excess(
    p_job_type varchar, p_added int, p_max int, OUT excess bigint, OUT pending bigint, OUT counted boolean
)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan must be a walk along the lane, whatever the statistics.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_last howdah.backlog_counts;
    v_began timestamptz := clock_timestamp();
    v_took interval;
    v_no bigint;
    v_since timestamptz;
    v_oldest timestamptz;
BEGIN
    SELECT c.* INTO v_last FROM howdah.backlog_counts AS c WHERE c.job_type = p_job_type ORDER BY c.counted_no DESC LIMIT 1;
    counted := false;
    IF v_last.max_pending = p_max AND v_began BETWEEN v_last.counted_at AND v_last.counted_at + interval '1 second' THEN
        pending := v_last.pending + (SELECT s.last_value FROM howdah.backlog_counter AS s) - v_last.counted_no;
        excess := pending + p_added - p_max;
        IF excess <= 0 THEN
            RETURN;
        ELSIF v_began < v_last.counted_at + 10 * v_last.took AND p_max - v_last.pending < p_max / 1000 THEN
            pending := least(pending, greatest(p_max, v_last.pending));
            excess := least(excess, p_added);
            RETURN;
        END IF;
    END IF;
    v_no := nextval('howdah.backlog_counter');
    IF v_last.full_at BETWEEN v_began - greatest(interval '1 second', 100 * v_last.full_took) AND v_began THEN
        v_since := v_last.oldest;
    END IF;
    SELECT count(*), min(waiting.run_at) INTO pending, v_oldest FROM (
        SELECT j.run_at FROM howdah.live AS j
        WHERE j.job_type = p_job_type AND j.status = 'pending' AND j.attempts < j.max_attempts
            AND j.run_at >= coalesce(v_since, '-infinity')
        LIMIT p_max + 1001::bigint
    ) AS waiting;
    v_took := clock_timestamp() - v_began;
    -- More than 1,000 too many are dropped by later calls.
    excess := least(pending + p_added - p_max, p_added + 1000);
    -- A snapshot from before would be stored as the state of now.
    IF (p_max > 1000 OR v_took > interval '200 ms') AND current_setting('transaction_isolation') = 'read committed' THEN
        counted := true;
        INSERT INTO howdah.backlog_counts (job_type, counted_no, max_pending, pending, counted_at, took, oldest, full_at, full_took)
        VALUES (
            p_job_type, v_no, p_max, pending, v_began + v_took, v_took,
            CASE WHEN pending = p_max + 1001::bigint THEN v_since ELSE coalesce(v_oldest, howdah.clock() - interval '1 minute') END,
            CASE WHEN v_since IS NULL THEN v_began ELSE v_last.full_at END, CASE WHEN v_since IS NULL THEN v_took ELSE v_last.full_took END
        );
        DELETE FROM howdah.backlog_counts AS c WHERE c.ctid = ANY (ARRAY(
            SELECT o.ctid FROM howdah.backlog_counts AS o
            WHERE o.job_type = p_job_type AND o.counted_no = v_last.counted_no
            FOR UPDATE SKIP LOCKED
        ));
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.backlog_excess IS
    'How many jobs of a type would wait too many (excess, negative if there is room) if so many were added, and how many wait. counted: by a'
    ' count that was stored. Internal.';
REVOKE ALL ON FUNCTION howdah.backlog_excess FROM PUBLIC;
