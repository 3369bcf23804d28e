CREATE OR REPLACE FUNCTION howdah.may_be_claimed(p_job howdah.live) RETURNS boolean
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    -- Not the start of the transaction: a job that was added since then, and that it has locked, is due.
    v_now timestamptz := howdah.lease_clock();
BEGIN
    IF p_job.run_at > v_now OR p_job.expires_at <= v_now THEN
        RETURN false;
    ELSIF EXISTS (
        SELECT FROM howdah.types AS t
        -- A job that has no flow key yet counts for no limit, and is in no order: see apply_flow.
        WHERE t.job_type = p_job.job_type AND (t.paused_at IS NOT NULL OR (t.keyed AND p_job.flow_key IS NULL))
    ) THEN
        RETURN false;
    ELSIF p_job.flow_key IS NOT NULL THEN
        BEGIN
            IF howdah.flow_room(p_job.job_type, 1, '{}') > 0 AND howdah.key_allows(p_job)
                -- The token of a plain client's claim is not above it.
                AND howdah.forget_held_from(p_job.job_type, p_job.flow_key)
                AND howdah.spend_tokens(p_job.job_type, ARRAY[p_job.id]) <> '{}'
            THEN
                RETURN true;
            END IF;
            -- Releases the rows of the type and the key that these have locked: the transaction of the client may take long.
            -- Not JQ000: PostgreSQL takes a code that ends in 000 as a class, and would catch every error of ours.
            RAISE EXCEPTION USING ERRCODE = 'JQ099';
        EXCEPTION
            WHEN SQLSTATE 'JQ099' THEN
                RETURN false;
        END;
    END IF;
    RETURN true;
END
$$;
COMMENT ON FUNCTION howdah.may_be_claimed IS 'Whether a pending job is due, its type is not paused, and its key allows it. Internal.';
REVOKE ALL ON FUNCTION howdah.may_be_claimed FROM PUBLIC;
