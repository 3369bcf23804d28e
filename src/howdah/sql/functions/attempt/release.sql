CREATE OR REPLACE FUNCTION howdah.release(
    p_ids uuid[],
    p_tokens bigint[],
    p_interrupted boolean DEFAULT false
) RETURNS TABLE (id uuid, status varchar)
LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT s.id, s.status
    FROM howdah.end_attempt(CASE WHEN p_interrupted THEN 'interrupted' ELSE 'released' END, p_ids, p_tokens) AS s
$$;
COMMENT ON FUNCTION howdah.release IS
    'Returns claimed jobs to the queue at once, in their old place and without spending an attempt, also those that were started ahead and'
    ' have not begun; with p_interrupted, running jobs too.'
    ' Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.release FROM PUBLIC;
