CREATE OR REPLACE FUNCTION howdah.progress(
    p_ids uuid[],
    p_tokens bigint[],
    p_percents int[],
    p_stages text[] DEFAULT NULL
) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- By id = ANY and a hash join, whatever the planner knows: a plan made for a table that was empty must hold for a full
-- one, and rows must be locked in the order of their ids everywhere, or two batches wait for each other in a circle.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    WITH report AS MATERIALIZED (
        SELECT DISTINCT ON (r.id, r.token) r.*
        FROM unnest(p_ids, p_tokens, p_percents, p_stages) WITH ORDINALITY AS r (id, token, percent, stage, place)
        ORDER BY r.id, r.token, r.place DESC
    )
    UPDATE howdah.live AS j SET
        progress = coalesce(least(greatest(report.percent, 0), 100), j.progress),
        current_stage = coalesce(left(report.stage, 100), j.current_stage),
        lease_until = howdah.lease_clock() + j.lease
    FROM report
    WHERE j.id = ANY (p_ids) AND j.id = report.id AND j.token = report.token AND j.status <> 'pending'
    RETURNING j.id;
END
$$;
COMMENT ON FUNCTION howdah.progress IS
    'Records how far held jobs are: percent and stage, each left as it is by a NULL. Renews the lease of an unregistered'
    ' holder. Returns the ids that it changed.';
REVOKE ALL ON FUNCTION howdah.progress FROM PUBLIC;
