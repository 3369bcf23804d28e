-- In the order of the keys, so that calls that share keys do not deadlock. Calls of one transaction have no common order: of two such
-- transactions, one may get the error of a deadlock. A row that needs no change is locked all the same.
CREATE OR REPLACE FUNCTION howdah.lock_uniques(
    p_job_types varchar[], p_keys text[], p_ids uuid[], p_span interval DEFAULT NULL, p_states varchar[] DEFAULT NULL
) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lock_timeout text := current_setting('lock_timeout');
    v_until timestamptz := howdah.moving_clock() + coalesce(howdah.clamp_interval(p_span), interval '0');
BEGIN
    IF v_lock_timeout::interval NOT BETWEEN interval '1 microsecond' AND interval '30 seconds' THEN
        PERFORM set_config('lock_timeout', '30s', true);
    END IF;
    INSERT INTO howdah.uniques AS u (job_type, key, job_id, states, until, added_at)
    SELECT DISTINCT ON (i.job_type, i.key)
        i.job_type, i.key, i.id, coalesce(p_states, ARRAY['pending', 'claimed', 'running']), v_until + interval '1 minute',
        CASE WHEN p_states IS NOT NULL THEN howdah.moving_clock() END
    FROM unnest(p_job_types, p_keys, p_ids) WITH ORDINALITY AS i (job_type, key, id, place)
    ORDER BY i.job_type, i.key, i.place
    ON CONFLICT (job_type, key) DO UPDATE SET
        states = coalesce(p_states, u.states), until = greatest(u.until, excluded.until)
    WHERE u.until < v_until OR u.states <> p_states;
    PERFORM set_config('lock_timeout', v_lock_timeout, true);
EXCEPTION
    WHEN lock_not_available OR deadlock_detected THEN
        RAISE EXCEPTION 'another transaction holds a unique key of these jobs' USING
            ERRCODE = 'JQ021',
            HINT = 'It has added a job with this key, and has not ended. Nothing was changed here: try it again. Add the unique jobs of a'
                ' transaction in one call, and commit soon after it.';
END
$$;
COMMENT ON FUNCTION howdah.lock_uniques IS
    'Locks unique keys until the end of the transaction, for at most 30 seconds of waiting; SQLSTATE JQ021 if it cannot. Internal.';
REVOKE ALL ON FUNCTION howdah.lock_uniques FROM PUBLIC;
