-- The jobs are looked up after the rows are locked, in a statement of its own: a call that adds a job holds the lock of its key until it
-- has committed. So no row is removed that a live job needs. And if one were missing, nothing would break: the jobs themselves decide.
CREATE OR REPLACE FUNCTION howdah.prune_uniques(p_limit bigint DEFAULT 10000) RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_types varchar[];
    v_keys text[];
    v_removed bigint;
BEGIN
    SELECT array_agg(due.job_type), array_agg(due.key) INTO v_types, v_keys FROM (
        SELECT u.job_type, u.key FROM howdah.uniques AS u WHERE u.until <= howdah.clock() ORDER BY u.until LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ) AS due;
    IF v_keys IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM howdah.uniques AS u USING unnest(v_types, v_keys) AS due (job_type, key)
    WHERE u.job_type = due.job_type AND u.key = due.key AND NOT EXISTS (
        SELECT FROM howdah.live AS j WHERE j.job_type = due.job_type AND j.unique_key = due.key AND j.unique_key IS NOT NULL
    );
    GET DIAGNOSTICS v_removed = ROW_COUNT;
    -- Their jobs are still live: looked at again later.
    UPDATE howdah.uniques AS u SET until = howdah.clock() + interval '10 minutes'
    FROM unnest(v_types, v_keys) AS due (job_type, key) WHERE u.job_type = due.job_type AND u.key = due.key;
    RETURN v_removed;
END
$$;
COMMENT ON FUNCTION howdah.prune_uniques IS
    'Removes unique keys that no live job has, and whose window has passed; p_limit of them at most. Returns how many. Part of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.prune_uniques FROM PUBLIC;
