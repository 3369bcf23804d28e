CREATE OR REPLACE FUNCTION howdah.end_overdue(p_cause text, p_ids uuid[], p_tokens bigint[])
RETURNS TABLE (id uuid, status varchar, reason text)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
BEGIN
    IF p_ids IS NULL THEN
        RETURN;
    ELSIF p_cause = 'expired' THEN
        PERFORM howdah.archive_jobs(array_agg(i.id), array_agg('cancelled'::varchar), array_agg(p_cause), p_cause => p_cause)
        FROM unnest(p_ids) AS i (id);
        RETURN QUERY SELECT i.id, 'cancelled'::varchar, p_cause FROM unnest(p_ids) AS i (id);
    ELSIF p_cause = 'no attempts left' THEN
        PERFORM howdah.archive_jobs(
            array_agg(j.id), array_agg('failed'::varchar), array_agg(coalesce(j.last_error, p_cause)), p_cause => p_cause
        )
        FROM howdah.live AS j WHERE j.id = ANY (p_ids);
        -- Without the last error, which the caller may lack the right to read.
        RETURN QUERY SELECT i.id, 'failed'::varchar, p_cause FROM unnest(p_ids) AS i (id);
    ELSE
        RETURN QUERY SELECT s.id, s.status, coalesce(s.reason, p_cause) FROM howdah.end_attempt(p_cause, p_ids, p_tokens) AS s;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.end_overdue IS
    'Ends jobs that the sweep has found and locked: claims by end_attempt, pending jobs that have expired or have no attempts left by'
    ' archive_jobs. Returns them, and why. Internal.';
REVOKE ALL ON FUNCTION howdah.end_overdue FROM PUBLIC;
