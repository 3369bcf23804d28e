CREATE OR REPLACE FUNCTION howdah.suspend(p_id uuid, p_token bigint, p_step text, p_until timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_status varchar;
BEGIN
    SELECT e.status INTO v_status
    FROM howdah.end_attempt('snoozed', ARRAY[p_id], ARRAY[p_token], p_run_ats => ARRAY[coalesce(p_until, 'infinity')]) AS e;
    IF v_status IS NULL THEN
        RAISE EXCEPTION 'job % cannot wait: it is claimed, but was not started', p_id USING
            ERRCODE = 'JQ005', HINT = 'Start it first.';
    ELSIF v_status = 'pending' THEN
        UPDATE howdah.steps AS s SET token = (SELECT j.token FROM howdah.live AS j WHERE j.id = p_id)
        WHERE s.job_id = p_id AND s.name = p_step;
    ELSE
        -- It was cancelled.
        PERFORM howdah.remove_steps(ARRAY[p_id], p_all => false);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.suspend IS
    'Ends the attempt of a running job that waits, without spending it; the job is due at p_until, or when its signal comes. Internal.';
REVOKE ALL ON FUNCTION howdah.suspend FROM PUBLIC;
