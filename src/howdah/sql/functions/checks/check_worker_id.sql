CREATE OR REPLACE FUNCTION howdah.check_worker_id(p_worker_id text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_worker_id IS NULL OR p_worker_id = '' OR length(p_worker_id) > 100 THEN
        RAISE EXCEPTION 'worker_id must have 1 to 100 characters' USING ERRCODE = 'JQ001';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_worker_id IS 'Rejects a malformed worker id with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_worker_id FROM PUBLIC;
