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
-- The plan must be id = ANY and a hash join, whatever the statistics: a plan made for an empty table must hold for a full one, and
-- all functions must lock rows in the order of their ids, or two batches deadlock.
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
    WITH report AS MATERIALIZED (
        SELECT DISTINCT ON (r.id, r.token)
            r.id, r.token, r.stage, n.done, n.total,
            howdah.clamp(
                coalesce(nullif(r.percent, 'NaN'), 100 * n.done / CASE WHEN abs(n.total) > 1e-9 THEN n.total END), 0, 100
            ) AS percent
        FROM unnest(p_ids, p_tokens, p_percents, p_stages, p_dones, p_totals) WITH ORDINALITY
            AS r (id, token, percent, stage, done, total, place)
        -- A number out of range must not fail the call, least of all for the other jobs of the batch.
        CROSS JOIN LATERAL (
            SELECT
                -- A number so small that its quotient would underflow counts as 0.
                CASE WHEN abs(r.done) < 1e-200 THEN 0 ELSE howdah.clamp(r.done, -1e18, 1e18) END AS done,
                howdah.clamp(r.total, -1e18, 1e18) AS total
        ) AS n
        ORDER BY r.id, r.token, r.place DESC
    ), changed AS (
        UPDATE howdah.live AS j SET
            progress = coalesce(round(report.percent)::int, j.progress),
            current_stage = coalesce(left(report.stage, 100), j.current_stage),
            lease_until = howdah.lease_clock() + j.lease,
            own_write = NOT j.own_write,
            progress_report = howdah.merged_progress(
                j.progress_report, j.token, j.attempts, j.started_at, howdah.clock(), report.percent, report.done, report.total,
                report.stage IS DISTINCT FROM j.current_stage AND report.stage IS NOT NULL
            )
        FROM report
        WHERE j.id = ANY (p_ids) AND j.id = report.id AND j.token = report.token AND j.status <> 'pending'
        RETURNING j.id, j.job_type
    )
    SELECT array_agg(c.id), array_agg(DISTINCT c.job_type) INTO v_ids, v_job_types FROM changed AS c;
    PERFORM howdah.notify_watchers(v_job_types);
    RETURN QUERY SELECT unnest(v_ids);
END
$$;
COMMENT ON FUNCTION howdah.progress IS
    'Records the progress of held jobs: percent (or p_dones of p_totals) and stage; NULL leaves a value as it is. Renews the lease of an'
    ' unregistered holder. Returns the ids that it changed.';
REVOKE ALL ON FUNCTION howdah.progress FROM PUBLIC;
