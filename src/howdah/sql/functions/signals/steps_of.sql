CREATE OR REPLACE FUNCTION howdah.steps_of(p_id uuid) RETURNS TABLE (name text, state text, result jsonb)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
AS $$
    SELECT s.name, CASE WHEN s.kind = 'sleep' AND s.until <= howdah.clock() THEN 'done' ELSE s.state END, s.result
    FROM howdah.steps AS s WHERE s.job_id = p_id
$$;
COMMENT ON FUNCTION howdah.steps_of IS 'The steps of a job, for an attempt that goes on after them.';
REVOKE ALL ON FUNCTION howdah.steps_of FROM PUBLIC;
