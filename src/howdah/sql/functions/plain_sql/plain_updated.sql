CREATE OR REPLACE FUNCTION howdah.plain_updated() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan must be a hash join, whatever the statistics: a plan made for one row must hold for many.
SET enable_nestloop = off
SET enable_mergejoin = off
SET jit = off
AS $$
DECLARE
    v_was_held boolean;
BEGIN
    -- For the end of a claim, plain_update has written the event already.
    FOREACH v_was_held IN ARRAY ARRAY[true, false] LOOP
        PERFORM howdah.archive_jobs(array_agg(a.id), array_agg(a.status), p_noted => v_was_held)
        FROM after AS a JOIN before AS b ON b.id = a.id
        WHERE a.status IN ('completed', 'failed', 'cancelled') AND (b.status IN ('claimed', 'running')) = v_was_held
        HAVING count(*) > 0;
    END LOOP;
    PERFORM howdah.notify_watchers(array_agg(DISTINCT a.job_type)) FROM after AS a
    WHERE a.status IN ('pending', 'claimed', 'running') HAVING count(*) > 0;
    PERFORM howdah.notify_workers(array_agg(DISTINCT a.job_type)) FROM after AS a WHERE a.status = 'pending' HAVING count(*) > 0;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.plain_updated IS
    'Moves the jobs that the UPDATE of a plain client ended to the archive, and notifies watchers and workers.';
REVOKE ALL ON FUNCTION howdah.plain_updated FROM PUBLIC;
