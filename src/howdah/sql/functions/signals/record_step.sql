CREATE OR REPLACE FUNCTION howdah.record_step(p_id uuid, p_token bigint, p_name text, p_result jsonb DEFAULT NULL) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_job howdah.live;
BEGIN
    IF p_name IS NULL OR char_length(p_name) NOT BETWEEN 1 AND 200 OR p_name ~ '^(signal:|sleep#)' THEN
        RAISE EXCEPTION '% is not the name of a step', coalesce(quote_literal(left(p_name, 200)), 'NULL') USING
            ERRCODE = 'JQ001', HINT = 'A name has 1 to 200 characters. Names of waits begin with signal: and sleep#.';
    END IF;
    IF pg_column_size(p_result) > 65536 THEN
        PERFORM howdah.check_size(ARRAY[p_result], 'the result of a step');
    END IF;
    v_job := howdah.lock_held(p_id, p_token);
    IF v_job.id IS NULL THEN
        RETURN false;
    END IF;
    INSERT INTO howdah.steps (job_id, name, kind, state, result, attempt, token, begun_at, done_at)
    VALUES (p_id, p_name, 'step', 'done', p_result, v_job.attempts, p_token, howdah.clock(), howdah.clock())
    -- A client repeats a call whose reply was lost.
    ON CONFLICT (job_id, name) DO NOTHING;
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.record_step IS
    'Records that a step of a held job is done, with its result: later attempts skip it. False if the claim is over. In the transaction of what'
    ' the step writes, both are committed exactly once.';
REVOKE ALL ON FUNCTION howdah.record_step FROM PUBLIC;
