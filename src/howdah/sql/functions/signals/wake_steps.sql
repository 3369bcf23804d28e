CREATE OR REPLACE FUNCTION howdah.wake_steps(
    p_signal varchar, p_key text, p_ids uuid[], p_names text[], p_data jsonb, p_due uuid[]
) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The steps must be found by their signal, and the arrays be hashed, whatever the statistics. So the arrays are in no join.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
    UPDATE howdah.steps AS s SET
        state = 'done', result = p_data, done_at = howdah.clock(),
        held_back = CASE WHEN s.job_id IN (SELECT due.id FROM unnest(p_due) AS due (id)) THEN NULL ELSE true END
    WHERE s.signal = p_signal AND s.key = p_key AND s.state = 'waiting' AND s.signal IS NOT NULL
        AND ((s.job_id, s.name) IN (SELECT w.id, w.name FROM unnest(p_ids, p_names) AS w (id, name))) IS TRUE
$$;
COMMENT ON FUNCTION howdah.wake_steps IS 'Writes a signal to the steps that waited for it. p_due: the jobs that are due already. Internal.';
REVOKE ALL ON FUNCTION howdah.wake_steps FROM PUBLIC;
