-- Two claimers with different snapshots may see different heads. So the claimer that locks the row of the type looks for the head
-- again with a new snapshot, and all others skip the type.
CREATE OR REPLACE FUNCTION howdah.claim_ordered(p_job_type varchar, p_include_crashed boolean) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id uuid;
    v_settles boolean;
BEGIN
    SELECT t.settling IS NOT NULL INTO v_settles FROM howdah.types AS t
    WHERE t.job_type = p_job_type AND t.ordered AND t.paused_at IS NULL
    FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN '{}';
    END IF;
    -- A job that was added while its type became ordered has no order_key yet, and comes before later ones all the same.
    IF v_settles THEN
        PERFORM howdah.apply_order(p_job_type);
    END IF;
    SELECT j.id INTO v_id
    FROM howdah.live AS j
    WHERE j.id = (SELECT head.id FROM howdah.ordered_heads(ARRAY[p_job_type]) AS head)
        AND j.status = 'pending' AND (p_include_crashed OR j.crashes = 0) AND (j.expires_at IS NULL OR j.expires_at > howdah.clock())
    FOR UPDATE SKIP LOCKED;
    RETURN CASE WHEN FOUND THEN ARRAY[v_id] ELSE '{}' END;
END
$$;
COMMENT ON FUNCTION howdah.claim_ordered IS 'Locks the head of an ordered type, unless one of its jobs is held. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_ordered FROM PUBLIC;
