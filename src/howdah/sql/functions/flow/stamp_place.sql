CREATE OR REPLACE FUNCTION howdah.stamp_place() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    NEW.placed_by := pg_current_xact_id();
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.stamp_place IS 'Notes which transaction has given a pending job its place in the order of its key: see flow_head.';
REVOKE ALL ON FUNCTION howdah.stamp_place FROM PUBLIC;
