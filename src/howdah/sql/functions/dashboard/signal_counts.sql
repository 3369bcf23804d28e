CREATE OR REPLACE FUNCTION howdah.signal_counts(p_signal varchar DEFAULT NULL, p_limit int DEFAULT 100, p_skip int DEFAULT 0)
RETURNS TABLE (
    signal varchar, key text, waiting bigint, waits_since timestamptz, first_job uuid, kept bigint, kept_since timestamptz, exact boolean
)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- Of a million jobs that wait for one signal it reads 200, whatever the statistics are.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET jit = off
AS $$
    SELECT
        c.signal, CASE WHEN c.key = '' THEN NULL WHEN howdah.may_see_keys() THEN c.key ELSE '[redacted]' END, coalesce(w.jobs, 0), w.since,
        w.first_job, coalesce(k.signals, 0), k.since, coalesce(w.jobs, 0) < 200 AND coalesce(k.signals, 0) < 200
    FROM (
        SELECT s.signal, s.key FROM howdah.signal_channels AS s
        WHERE (p_signal IS NULL OR s.signal = p_signal)
            -- Others stay until the sweep: they must take no place of a page, or it would seem to be the last.
            AND (
                EXISTS (SELECT FROM howdah.signals AS g WHERE g.signal = s.signal AND g.key = s.key)
                OR EXISTS (
                    SELECT FROM (
                        SELECT t.job_id, t.token FROM howdah.steps AS t
                        WHERE t.state = 'waiting' AND t.signal IS NOT NULL AND t.signal = s.signal AND t.key = s.key
                        LIMIT 200
                    ) AS few
                    WHERE EXISTS (SELECT FROM howdah.live AS j WHERE j.id = few.job_id AND j.token = few.token AND j.status = 'pending' OFFSET 0)
                )
            )
        ORDER BY s.signal, s.key OFFSET least(greatest(p_skip, 0), 100000) LIMIT least(greatest(p_limit, 1), 1000)
    ) AS c
    CROSS JOIN LATERAL (
        SELECT count(*) AS jobs, min(few.begun_at) AS since, (array_agg(few.job_id ORDER BY few.begun_at))[1] AS first_job
        FROM (
            SELECT s.job_id, s.token, s.begun_at FROM howdah.steps AS s
            WHERE s.state = 'waiting' AND s.signal IS NOT NULL AND s.signal = c.signal AND s.key = c.key
            LIMIT 200
        ) AS few
        -- With another token, it does not wait any more.
        WHERE EXISTS (SELECT FROM howdah.live AS j WHERE j.id = few.job_id AND j.token = few.token AND j.status = 'pending' OFFSET 0)
    ) AS w
    CROSS JOIN LATERAL (
        SELECT count(*) AS signals, min(few.kept_at) AS since
        FROM (SELECT s.kept_at FROM howdah.signals AS s WHERE s.signal = c.signal AND s.key = c.key ORDER BY s.number LIMIT 200) AS few
    ) AS k
    ORDER BY c.signal, c.key
$$;
COMMENT ON FUNCTION howdah.signal_counts IS
    'Which signals jobs wait for, and which are kept: of each name and key, how many jobs wait, since when, and the first of them; how many are kept, and since'
    ' when. p_signal: of this name only. It counts 200 of each at most: exact is false if there may be more.';
REVOKE ALL ON FUNCTION howdah.signal_counts FROM PUBLIC;
