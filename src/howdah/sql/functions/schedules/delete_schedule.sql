CREATE OR REPLACE FUNCTION howdah.delete_schedule(p_name varchar) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    DELETE FROM howdah.schedules AS s WHERE s.name = p_name;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.delete_schedule IS
    'Deletes a schedule; the jobs that it has added stay. False if there was none of this name.';
REVOKE ALL ON FUNCTION howdah.delete_schedule FROM PUBLIC;
