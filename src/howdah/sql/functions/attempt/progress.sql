CREATE OR REPLACE FUNCTION howdah.progress(
    p_ids uuid[],
    p_tokens bigint[],
    p_percents float8[],
    p_stages text[] DEFAULT NULL,
    p_dones float8[] DEFAULT NULL,
    p_totals float8[] DEFAULT NULL
) RETURNS TABLE (id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
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
DECLARE
    v_ids uuid[];
    v_job_types varchar[];
BEGIN
    WITH told AS MATERIALIZED (
        SELECT DISTINCT ON (r.id, r.token)
            r.id, r.token, r.stage, n.done, n.total,
            howdah.clamp(
                coalesce(nullif(r.percent, 'NaN'), 100 * n.done / CASE WHEN abs(n.total) > 1e-9 THEN n.total END), 0, 100
            ) AS percent
        FROM unnest(p_ids, p_tokens, p_percents, p_stages, p_dones, p_totals) WITH ORDINALITY
            AS r (id, token, percent, stage, done, total, place)
        -- A number beyond all reason is no reason to fail, least of all for the others of the batch.
        CROSS JOIN LATERAL (
            SELECT
                -- One so small that no quotient of it can be told is none.
                CASE WHEN abs(r.done) < 1e-200 THEN 0 ELSE howdah.clamp(r.done, -1e18, 1e18) END AS done,
                howdah.clamp(r.total, -1e18, 1e18) AS total
        ) AS n
        ORDER BY r.id, r.token, r.place DESC
    ), changed AS (
        UPDATE howdah.live AS j SET
            progress = coalesce(round(told.percent)::int, j.progress),
            current_stage = coalesce(left(told.stage, 100), j.current_stage),
            lease_until = howdah.lease_clock() + j.lease,
            own_write = NOT j.own_write,
            progress_report = howdah.merged_progress(
                j.progress_report, j.token, j.attempts, j.started_at, howdah.clock(), told.percent, told.done, told.total,
                told.stage IS DISTINCT FROM j.current_stage AND told.stage IS NOT NULL
            )
        FROM told
        WHERE j.id = ANY (p_ids) AND j.id = told.id AND j.token = told.token AND j.status <> 'pending'
        RETURNING j.id, j.job_type
    )
    SELECT array_agg(c.id), array_agg(DISTINCT c.job_type) INTO v_ids, v_job_types FROM changed AS c;
    PERFORM howdah.notify_watchers(v_job_types);
    RETURN QUERY SELECT unnest(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.progress IS
    'Records how far held jobs are: percent (or p_dones of p_totals) and stage, each left as it is by a NULL. Renews the lease of an'
    ' unregistered holder. Returns the ids that it changed.';
REVOKE ALL ON FUNCTION howdah.progress FROM PUBLIC;
