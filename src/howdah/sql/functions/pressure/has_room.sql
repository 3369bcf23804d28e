CREATE OR REPLACE FUNCTION howdah.has_room(p_job_type varchar, p_count int DEFAULT 1) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_max int := (SELECT coalesce(t.max_pending, t.declared_max_pending) FROM howdah.types AS t WHERE t.job_type = p_job_type);
BEGIN
    RETURN v_max IS NULL OR (SELECT b.excess <= 0 FROM howdah.backlog_excess(p_job_type, p_count, v_max) AS b);
END
$$;
COMMENT ON FUNCTION howdah.has_room IS
    'Whether so many jobs of a type can be enqueued without exceeding the bound on those that wait. For producers that wait for room: a call of'
    ' enqueue that is refused has to count the jobs each time, and this stores what it counted.';
REVOKE ALL ON FUNCTION howdah.has_room FROM PUBLIC;
