-- Whether a job waits is decided under the lock of the name and key, which each wait takes, too: so no wake-up is lost, and each kept signal
-- is taken once. A job itself is never waited for: if another transaction has locked it, the signal is written to its step all
-- the same, and the sweep makes it due.
CREATE OR REPLACE FUNCTION howdah.signal(p_name varchar, p_data jsonb DEFAULT NULL, p_key text DEFAULT NULL)
RETURNS TABLE (woken int, kept boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
-- The plan must begin with the steps that wait, whatever the statistics.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_mergejoin = off
SET enable_hashjoin = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_key text := coalesce(p_key, '');
    v_ids uuid[];
    v_names text[];
    v_tokens bigint[];
    v_due uuid[];
BEGIN
    PERFORM howdah.check_signal(p_name, p_key);
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(ARRAY[p_data], 'the data of a signal');
    END IF;
    PERFORM howdah.lock_channel(p_name, v_key);
    -- Each OFFSET keeps a table by itself. In a join, the primary key looks as good as the right index if there was nothing when the
    -- statistics were made, and all of the table would be read.
    SELECT array_agg(s.job_id), array_agg(s.name), array_agg(s.token) INTO v_ids, v_names, v_tokens
    FROM (
        SELECT w.job_id, w.name, w.token FROM howdah.steps AS w
        WHERE w.signal = p_name AND w.key = v_key AND w.state = 'waiting' AND w.signal IS NOT NULL
        OFFSET 0
    ) AS s
    WHERE EXISTS (
        SELECT FROM howdah.live AS j WHERE j.id = s.job_id AND j.token = s.token AND j.status NOT IN ('claimed', 'running') OFFSET 0
    );
    kept := v_ids IS NULL;
    woken := coalesce(cardinality(v_ids), 0);
    IF kept THEN
        INSERT INTO howdah.signals (signal, key, data, kept_at) VALUES (p_name, v_key, p_data, howdah.clock());
    ELSE
        v_due := ARRAY(SELECT howdah.make_due(v_ids, v_tokens));
        PERFORM howdah.wake_steps(p_name, v_key, v_ids, v_names, p_data, v_due);
    END IF;
    -- Jobs that have ended while they waited.
    DELETE FROM howdah.steps AS s
    WHERE s.signal = p_name AND s.key = v_key AND s.state = 'waiting' AND s.signal IS NOT NULL
        AND NOT EXISTS (SELECT FROM howdah.live AS j WHERE j.id = s.job_id OFFSET 0);
    PERFORM howdah.close_channel(p_name, v_key);
    RETURN NEXT;
EXCEPTION
    WHEN lock_not_available THEN
        RAISE EXCEPTION 'the signal % was not sent: for 5 s, another transaction has been sending or taking signals of this name and key', p_name
            USING ERRCODE = 'JQ023', HINT = 'Try again; keep transactions that send signals short.';
END
$$;
COMMENT ON FUNCTION howdah.signal IS
    'Sends a signal: wakes all jobs that wait for this name and key, or is kept for the one that waits first. woken: how many it woke.';
REVOKE ALL ON FUNCTION howdah.signal FROM PUBLIC;
