CREATE OR REPLACE FUNCTION howdah.lock_held(p_id uuid, p_token bigint) RETURNS howdah.live
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_job howdah.live;
BEGIN
    -- The first step notes that there are steps. Later ones only lock the job, unless they renew the lease of its holder.
    UPDATE howdah.live AS j SET has_steps = true, lease_until = howdah.lease_clock() + j.lease, own_write = NOT j.own_write
    WHERE j.id = p_id AND j.token = p_token AND j.status <> 'pending' AND (j.has_steps IS NULL OR j.lease IS NOT NULL)
    RETURNING j.* INTO v_job;
    IF NOT FOUND THEN
        SELECT j.* INTO v_job FROM howdah.live AS j
        WHERE j.id = p_id AND j.token = p_token AND j.status <> 'pending' FOR NO KEY UPDATE;
    END IF;
    RETURN v_job;
END
$$;
COMMENT ON FUNCTION howdah.lock_held IS 'Locks a held job that records a step, and returns it; NULL if the claim is over. Internal.';
REVOKE ALL ON FUNCTION howdah.lock_held FROM PUBLIC;
