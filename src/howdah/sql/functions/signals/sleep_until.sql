CREATE OR REPLACE FUNCTION howdah.sleep_until(
    p_id uuid,
    p_token bigint,
    p_step text,
    p_until timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL
) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_job howdah.live;
    v_until timestamptz;
BEGIN
    IF p_delay NOT BETWEEN '0' AND '36500 days' THEN
        RAISE EXCEPTION 'delay is %, and must be from 0 to a hundred years', p_delay USING ERRCODE = 'JQ001';
    END IF;
    v_job := howdah.lock_held(p_id, p_token);
    IF v_job.id IS NULL THEN
        RETURN 'lost';
    END IF;
    INSERT INTO howdah.steps AS s (job_id, name, kind, state, attempt, token, begun_at, done_at, until)
    VALUES (
        p_id, p_step, 'sleep', 'waiting', v_job.attempts, p_token, howdah.clock(), NULL, coalesce(p_until, howdah.clock() + p_delay, howdah.clock())
    )
    ON CONFLICT (job_id, name) DO UPDATE SET token = excluded.token
    RETURNING s.until INTO v_until;
    IF v_until <= howdah.clock() THEN
        UPDATE howdah.steps AS s SET state = 'done', done_at = howdah.clock() WHERE s.job_id = p_id AND s.name = p_step;
        RETURN 'done';
    END IF;
    PERFORM howdah.suspend(p_id, p_token, p_step, v_until);
    RETURN 'waiting';
END
$$;
COMMENT ON FUNCTION howdah.sleep_until IS
    'Ends the attempt of a running job until p_until, or for p_delay, without spending it. waiting: it has ended. done: the moment has'
    ' passed; it is that of the first call with this p_step. lost: the claim is over.';
REVOKE ALL ON FUNCTION howdah.sleep_until FROM PUBLIC;
