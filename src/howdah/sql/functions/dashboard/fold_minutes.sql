CREATE OR REPLACE FUNCTION howdah.fold_minutes(p_rows int DEFAULT 20000) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_now timestamptz := howdah.clock();
    v_minute timestamptz := date_trunc('minute', v_now);
    v_folded int := 0;
    v_some int;
    v_level smallint;
    v_before timestamptz;
    v_slot interval;
BEGIN
    -- Once a minute: how many wait.
    IF NOT EXISTS (SELECT FROM howdah.minutes AS m WHERE m.level = 1 AND m.at = v_minute AND m.job_type = '') THEN
        INSERT INTO howdah.minutes (level, at, job_type, backlog)
        SELECT 1, v_minute, c.job_type, c.pending - c.scheduled FROM howdah.live_counts(1000) AS c WHERE c.pending > c.scheduled
        UNION ALL
        SELECT 1, v_minute, '', 0;
    END IF;
    FOR v_level, v_before, v_slot IN VALUES
        (0::smallint, v_minute, interval '1 minute'),
        (1::smallint, v_now - interval '130 minutes', interval '10 minutes'),
        (2::smallint, v_now - interval '50 hours', interval '1 hour')
    LOOP
        WITH taken AS MATERIALIZED (
            -- Rows that another sweep is merging are left to it.
            SELECT m.ctid AS place FROM howdah.minutes AS m
            WHERE m.level = v_level AND m.at < date_bin(v_slot, v_before, 'epoch'::timestamptz) ORDER BY m.at LIMIT p_rows FOR UPDATE SKIP LOCKED
        ), merged AS MATERIALIZED (
            DELETE FROM howdah.minutes AS m WHERE m.ctid = ANY (ARRAY(SELECT t.place FROM taken AS t))
            RETURNING date_bin(v_slot, m.at, 'epoch'::timestamptz) AS at, m.job_type, m.completed, m.failed, m.cancelled, m.backlog,
                m.waits, m.wait_jobs, m.runs, m.run_jobs
        ), spread AS (
            -- Once more for all types together: charts of weeks would read the histograms of each type otherwise.
            SELECT
                m.at, t.job_type, m.completed, m.failed, m.cancelled, m.backlog, m.waits, m.wait_jobs, m.runs, m.run_jobs, t.job_type = m.job_type AS is_own
            FROM merged AS m CROSS JOIN unnest(CASE WHEN v_level = 0 THEN ARRAY[m.job_type, ''] ELSE ARRAY[m.job_type] END) AS t (job_type)
        ), histogram AS (
            SELECT
                b.at, b.job_type, array_agg(b.bucket) FILTER (WHERE b.is_wait) AS waits, array_agg(b.jobs) FILTER (WHERE b.is_wait) AS wait_jobs,
                array_agg(b.bucket) FILTER (WHERE NOT b.is_wait) AS runs, array_agg(b.jobs) FILTER (WHERE NOT b.is_wait) AS run_jobs
            FROM (
                SELECT
                    m.at, m.job_type, h.is_wait, e.bucket,
                    -- A sample stands for several jobs.
                    sum(coalesce(e.jobs, greatest(m.completed + m.failed, 1)::real / cardinality(h.buckets)))::real AS jobs
                FROM spread AS m
                CROSS JOIN LATERAL (VALUES (true, m.waits, m.wait_jobs), (false, m.runs, m.run_jobs)) AS h (is_wait, buckets, jobs)
                CROSS JOIN LATERAL ROWS FROM (unnest(h.buckets), unnest(h.jobs)) AS e (bucket, jobs)
                WHERE e.bucket IS NOT NULL
                GROUP BY m.at, m.job_type, h.is_wait, e.bucket
            ) AS b
            GROUP BY b.at, b.job_type
        ), kept AS (
            INSERT INTO howdah.minutes (level, at, job_type, completed, failed, cancelled, backlog, waits, wait_jobs, runs, run_jobs)
            SELECT v_level + 1, s.at, s.job_type, s.completed, s.failed, s.cancelled, s.backlog, h.waits, h.wait_jobs, h.runs, h.run_jobs
            FROM (
                SELECT
                    m.at, m.job_type, coalesce(sum(m.completed) FILTER (WHERE m.is_own), 0) AS completed,
                    coalesce(sum(m.failed) FILTER (WHERE m.is_own), 0) AS failed, coalesce(sum(m.cancelled) FILTER (WHERE m.is_own), 0) AS cancelled,
                    max(m.backlog) FILTER (WHERE m.is_own) AS backlog
                FROM spread AS m GROUP BY m.at, m.job_type
            ) AS s
            LEFT JOIN histogram AS h ON h.at = s.at AND h.job_type = s.job_type
        )
        SELECT count(*) INTO v_some FROM merged;
        v_folded := v_folded + v_some;
    END LOOP;
    -- By row: a type has 24 of them for a day. To drop a table for each day would lock out the completions, which all write here.
    DELETE FROM howdah.minutes AS m WHERE m.ctid = ANY (ARRAY(
        SELECT o.ctid FROM howdah.minutes AS o WHERE o.level = 3 AND o.at < v_now - interval '35 days' LIMIT 1000 FOR UPDATE SKIP LOCKED
    ));
    RETURN v_folded;
END
$$;
COMMENT ON FUNCTION howdah.fold_minutes IS
    'Merges the rows of minutes that are over, p_rows of each level at most, records how many jobs wait, and deletes what is older than 35 days.'
    ' Returns how many rows it merged. Part of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.fold_minutes FROM PUBLIC;
