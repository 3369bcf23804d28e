CREATE OR REPLACE FUNCTION howdah.key_allows(p_job howdah.live) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type howdah.types;
    v_key howdah.flow_keys;
    v_has_rules boolean;
    v_limit int;
BEGIN
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = p_job.job_type;
    v_has_rules := howdah.limit_of_keys(v_type) IS NOT NULL OR howdah.rate_of_keys(v_type) IS NOT NULL;
    IF v_has_rules THEN
        PERFORM howdah.add_keys(p_job.job_type, ARRAY[p_job.flow_key]);
    END IF;
    SELECT * INTO v_key FROM howdah.flow_keys AS k
    WHERE k.job_type = p_job.job_type AND k.flow_key = p_job.flow_key
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        -- No rules for it; or another claim is at it.
        RETURN NOT v_has_rules
            AND NOT EXISTS (SELECT FROM howdah.flow_keys AS k WHERE k.job_type = p_job.job_type AND k.flow_key = p_job.flow_key);
    ELSIF v_key.paused_at IS NOT NULL THEN
        RETURN false;
    ELSIF v_type.ordered AND NOT v_type.order_skips
        AND p_job.id IS DISTINCT FROM (SELECT head.id FROM howdah.flow_head(p_job.job_type, p_job.flow_key) AS head)
    THEN
        RETURN false;
    END IF;
    v_limit := howdah.limit_of_keys(v_type, v_key.max_running);
    -- By a new statement: it sees what the former holder of the lock has committed.
    RETURN v_limit IS NULL OR v_limit > (
        SELECT count(*) FROM howdah.live AS j
        WHERE j.job_type = p_job.job_type AND j.flow_key = p_job.flow_key AND j.status IN ('claimed', 'running')
    );
END
$$;
COMMENT ON FUNCTION howdah.key_allows IS 'Whether the order, the limit and the pause of its key let a pending job be claimed by a plain client. Internal.';
REVOKE ALL ON FUNCTION howdah.key_allows FROM PUBLIC;
