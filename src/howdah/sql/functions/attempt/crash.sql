CREATE OR REPLACE FUNCTION howdah.crash(
    p_ids uuid[],
    p_tokens bigint[],
    p_errors text[] DEFAULT NULL
) RETURNS TABLE (id uuid, status varchar)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT s.id, s.status FROM howdah.end_attempt('crashed', p_ids, p_tokens, p_errors) AS s;
END
$$;
COMMENT ON FUNCTION howdah.crash IS
    'Records that the process that ran these jobs for a worker died: costs an attempt and a crash, as if the worker itself had died.'
    ' Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.crash FROM PUBLIC;
