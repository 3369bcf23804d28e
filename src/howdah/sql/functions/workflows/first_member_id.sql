CREATE OR REPLACE FUNCTION howdah.first_member_id() RETURNS uuid
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_id text := howdah.new_id()::text;
BEGIN
    -- Bit 39 is 0: see member_id.
    RETURN (left(v_id, 26) || to_hex(('x' || substr(v_id, 27, 1))::bit(4)::int & 7) || substr(v_id, 28))::uuid;
END
$$;
COMMENT ON FUNCTION howdah.first_member_id IS 'An id for the first job of a node. Internal.';
REVOKE ALL ON FUNCTION howdah.first_member_id FROM PUBLIC;
