CREATE OR REPLACE FUNCTION howdah.checkpoint(p_id uuid, p_token bigint, p_checkpoint jsonb) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF pg_column_size(p_checkpoint) > 65536 THEN
        PERFORM howdah.check_size(ARRAY[p_checkpoint], 'a checkpoint');
    END IF;
    UPDATE howdah.live AS j SET
        checkpoint = p_checkpoint,
        lease_until = howdah.lease_clock() + j.lease,
        own_write = NOT j.own_write,
        progress_report = howdah.merged_progress(j.progress_report, j.token, j.attempts, j.started_at, howdah.clock())
    WHERE j.id = p_id AND j.token = p_token AND j.status <> 'pending';
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.checkpoint IS 'Saves the state from which the next attempt may resume. False if the claim is over.';
REVOKE ALL ON FUNCTION howdah.checkpoint FROM PUBLIC;
