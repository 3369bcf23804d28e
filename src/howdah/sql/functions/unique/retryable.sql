-- As retry does, it locks the ended jobs in the order of their ids. Only live jobs are in the way: an operator's retry is not throttled.
CREATE OR REPLACE FUNCTION howdah.retryable(p_ids uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY, and look each key up, whatever the statistics: a plan made for an empty table must hold for a full one.
-- retry allows no nested loops.
SET enable_nestloop = on
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    v_ids uuid[];
    v_types varchar[];
    v_keys text[];
    v_refused uuid[];
BEGIN
    WITH ended AS MATERIALIZED (
        SELECT a.id, a.job_type, a.unique_key FROM howdah.archive AS a WHERE a.id = ANY (p_ids) ORDER BY a.id FOR UPDATE
    )
    SELECT array_agg(e.id), array_agg(e.job_type), array_agg(e.unique_key) INTO v_ids, v_types, v_keys
    FROM ended AS e WHERE e.unique_key IS NOT NULL;
    PERFORM howdah.lock_uniques(v_types, v_keys, v_ids);
    -- Of several with the same key, the newest one is retried.
    SELECT array_agg(e.id) INTO v_refused FROM (
        SELECT i.id, i.job_type, i.key, row_number() OVER (PARTITION BY i.job_type, i.key ORDER BY i.id DESC) AS place
        FROM unnest(v_types, v_keys, v_ids) AS i (job_type, key, id)
    ) AS e
    JOIN howdah.uniques AS u ON u.job_type = e.job_type AND u.key = e.key
    WHERE (e.place > 1 AND 'pending' = ANY (u.states)) OR EXISTS (
        SELECT FROM howdah.live AS j
        WHERE j.job_type = e.job_type AND j.unique_key = e.key AND j.unique_key IS NOT NULL AND j.status = ANY (u.states)
    );
    UPDATE howdah.uniques AS u SET job_id = i.id, added_at = NULL FROM unnest(v_types, v_keys, v_ids) AS i (job_type, key, id)
    WHERE u.job_type = i.job_type AND u.key = i.key AND u.job_id <> i.id AND i.id <> ALL (coalesce(v_refused, '{}'));
    RETURN ARRAY(SELECT i.id FROM unnest(p_ids) AS i (id) WHERE i.id <> ALL (coalesce(v_refused, '{}')));
END
$$;
COMMENT ON FUNCTION howdah.retryable IS
    'Those of these jobs that a retry may make pending again, because no live job with the same unique key is in the way. Part of retry. Internal.';
REVOKE ALL ON FUNCTION howdah.retryable FROM PUBLIC;
