-- A selection is read in windows of so many jobs, in the order of their ids: few filters have an index, and a statement that looked for
-- matches without such a bound could read every job. A job keeps its id when it ends or is retried, so each is seen once. Of a flow key
-- with few live jobs, the window has only these: live_of_key finds them by an index.
CREATE OR REPLACE FUNCTION howdah.selection_end(p_statuses varchar[], p_position uuid, p_window int, p_live uuid[]) RETURNS uuid
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
-- So that conditions which are known to hold, or not to, are left out, and the index of unsuccessful jobs can be used.
SET plan_cache_mode = force_custom_plan
AS $$
DECLARE
    v_live boolean := p_statuses IS NULL OR p_statuses && '{pending,claimed,running}';
    v_ended boolean := p_statuses IS NULL OR p_statuses && '{completed,failed,cancelled}';
    v_completed boolean := p_statuses IS NULL OR 'completed' = ANY (p_statuses);
BEGIN
    RETURN (
        SELECT w.id FROM (
            (
                SELECT j.id FROM howdah.live AS j
                WHERE v_live AND j.id >= p_position AND (p_live IS NULL OR j.id = ANY (p_live))
                ORDER BY j.id LIMIT p_window + 1
            )
            UNION ALL
            (
                SELECT a.id FROM howdah.archive AS a
                WHERE v_ended AND a.id >= p_position AND (v_completed OR a.status <> 'completed')
                ORDER BY a.id LIMIT p_window + 1
            )
        ) AS w
        ORDER BY w.id OFFSET p_window LIMIT 1
    );
END
$$;
COMMENT ON FUNCTION howdah.selection_end IS
    'The first id after the next p_window jobs that may be in a selection, from p_position on; NULL if there are no more.'
    ' p_live: the only live jobs that may be; NULL for all. Internal.';
REVOKE ALL ON FUNCTION howdah.selection_end FROM PUBLIC;
