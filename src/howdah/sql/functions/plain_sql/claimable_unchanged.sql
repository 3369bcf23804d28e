CREATE OR REPLACE FUNCTION howdah.claimable_unchanged() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'claimable is for SELECT ... FOR UPDATE SKIP LOCKED only' USING
        ERRCODE = 'JQ005', HINT = 'Write to jobs instead, by id.';
END
$$;
COMMENT ON FUNCTION howdah.claimable_unchanged IS 'Rejects writes through the view claimable.';
REVOKE ALL ON FUNCTION howdah.claimable_unchanged FROM PUBLIC;
