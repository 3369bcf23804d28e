-- Everything is decided under the lock of the name and key, in one transaction: the signal is there and is taken, or the time is over, or the
-- attempt ends and the job waits. See signal.
CREATE OR REPLACE FUNCTION howdah.wait_signal(
    p_id uuid,
    p_token bigint,
    p_step text,
    p_name varchar,
    p_key text DEFAULT NULL,
    p_timeout interval DEFAULT NULL
) RETURNS TABLE (state text, data jsonb)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- A transaction of others may send this signal, and not end for long. The caller tries again.
SET lock_timeout = '100ms'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_key text := coalesce(p_key, '');
    v_job howdah.live;
    v_step howdah.steps;
BEGIN
    PERFORM howdah.check_signal(p_name, p_key);
    IF p_timeout NOT BETWEEN '0' AND '36500 days' THEN
        RAISE EXCEPTION 'timeout is %, and must be from 0 to a hundred years', p_timeout USING ERRCODE = 'JQ001';
    END IF;
    PERFORM howdah.lock_channel(p_name, v_key);
    v_job := howdah.lock_held(p_id, p_token);
    IF v_job.id IS NULL THEN
        state := 'lost';
        PERFORM howdah.close_channel(p_name, v_key);
        RETURN NEXT;
        RETURN;
    END IF;
    INSERT INTO howdah.steps AS s (job_id, name, kind, state, attempt, token, begun_at, signal, key, until)
    VALUES (p_id, p_step, 'signal', 'waiting', v_job.attempts, p_token, howdah.clock(), p_name, v_key, howdah.clock() + p_timeout)
    ON CONFLICT (job_id, name) DO UPDATE SET token = CASE WHEN s.state = 'waiting' THEN excluded.token ELSE s.token END
    RETURNING * INTO v_step;

    IF v_step.state = 'waiting' THEN
        WITH taken AS (
            DELETE FROM howdah.signals AS k WHERE k.signal = p_name AND k.key = v_key AND k.number = (
                SELECT f.number FROM howdah.signals AS f
                WHERE f.signal = p_name AND f.key = v_key
                    AND f.kept_at >= howdah.clock() - (SELECT t.archive_retention FROM howdah.settings AS t)
                ORDER BY f.number LIMIT 1
            )
            RETURNING k.data
        )
        UPDATE howdah.steps AS s SET state = 'done', result = taken.data, done_at = howdah.clock()
        FROM taken WHERE s.job_id = p_id AND s.name = p_step
        RETURNING s.* INTO v_step;
        IF NOT FOUND THEN
            -- The moment itself belongs to the time-out: the job is due then.
            UPDATE howdah.steps AS s SET state = 'timed out', done_at = howdah.clock()
            WHERE s.job_id = p_id AND s.name = p_step AND s.until <= howdah.clock()
            RETURNING s.* INTO v_step;
            IF NOT FOUND THEN
                SELECT s.* INTO v_step FROM howdah.steps AS s WHERE s.job_id = p_id AND s.name = p_step;
                PERFORM howdah.suspend(p_id, p_token, p_step, v_step.until);
            END IF;
        END IF;
    END IF;
    PERFORM howdah.close_channel(p_name, v_key);
    state := v_step.state;
    data := v_step.result;
    RETURN NEXT;
EXCEPTION
    WHEN lock_not_available THEN
        state := 'busy';
        RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.wait_signal IS
    'What has become of a running job''s wait for a signal. done: the first kept signal is taken, or the job was woken before; data is that of the'
    ' signal. timed out: p_timeout has passed since the wait began. waiting: the attempt has ended, without being spent, and the job'
    ' is due again when the signal comes, or the time is over. lost: the claim is over. busy: another transaction holds'
    ' the signal or the job; call it again. p_step names the wait within the job: a later attempt that asks again gets the same answer.';
REVOKE ALL ON FUNCTION howdah.wait_signal FROM PUBLIC;
