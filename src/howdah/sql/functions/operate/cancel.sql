CREATE OR REPLACE FUNCTION howdah.cancel(p_ids uuid[], p_reason text DEFAULT NULL)
RETURNS TABLE (id uuid, status varchar)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '5s'
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_ending uuid[];
    v_running uuid[];
BEGIN
    SELECT
        array_agg(j.id) FILTER (WHERE j.status <> 'running'),
        array_agg(j.id) FILTER (WHERE j.status = 'running' AND j.cancel_requested_at IS NULL)
    INTO v_ending, v_running
    FROM (
        SELECT j.id, j.status, j.cancel_requested_at FROM howdah.live AS j
        WHERE j.id = ANY (p_ids) ORDER BY j.id FOR UPDATE
    ) AS j;

    UPDATE howdah.live AS j SET token = howdah.next_token(j.token), worker_id = NULL, claimed_at = NULL, own_write = NOT j.own_write
    WHERE j.id = ANY (v_ending);
    PERFORM howdah.archive_jobs(array_agg(c.id), array_agg('cancelled'::varchar), array_agg(left(p_reason, 1000000)))
    FROM unnest(v_ending) AS c (id)
    HAVING count(*) > 0;
    UPDATE howdah.live AS j SET
        cancel_requested_at = howdah.clock(),
        last_error = coalesce(left(p_reason, 1000000), j.last_error),
        own_write = NOT j.own_write
    WHERE j.id = ANY (v_running);
    -- A hint to their workers. Without it, they find out with their next check_held.
    IF v_running IS NOT NULL AND howdah.may_notify() THEN
        PERFORM pg_notify(howdah.channel(), 'cancel ' || c.id) FROM unnest(v_running[:1000]) AS c (id);
    END IF;

    RETURN QUERY
    SELECT c.id, 'cancelled'::varchar FROM unnest(v_ending) AS c (id)
    UNION ALL
    SELECT c.id, 'running'::varchar FROM unnest(v_running) AS c (id);
END
$$;
COMMENT ON FUNCTION howdah.cancel IS
    'Cancels jobs. Pending and claimed jobs end at once; running jobs are asked to stop, and are returned as still running. Jobs that'
    ' have ended, or were asked before, are not returned.';
REVOKE ALL ON FUNCTION howdah.cancel FROM PUBLIC;
