CREATE OR REPLACE FUNCTION howdah.wake_steps(p_ids uuid[], p_names text[], p_data jsonb, p_due uuid[]) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The steps must be found by their keys, and p_due be hashed, whatever the statistics.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_mergejoin = off
AS $$
    UPDATE howdah.steps AS s SET
        state = 'done', result = p_data, done_at = howdah.clock(), held_back = CASE WHEN woken.is_due THEN NULL ELSE true END
    FROM (
        SELECT w.id, w.name, due.id IS NOT NULL AS is_due
        FROM unnest(p_ids, p_names) AS w (id, name) LEFT JOIN unnest(p_due) AS due (id) ON due.id = w.id
    ) AS woken
    WHERE s.job_id = woken.id AND s.name = woken.name
$$;
COMMENT ON FUNCTION howdah.wake_steps IS 'Writes a signal to the steps that waited for it. p_due: the jobs that are due already. Internal.';
REVOKE ALL ON FUNCTION howdah.wake_steps FROM PUBLIC;
