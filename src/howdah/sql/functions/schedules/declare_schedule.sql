CREATE OR REPLACE FUNCTION howdah.declare_schedule(p_name varchar) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.schedules AS s SET declared_at = howdah.clock() WHERE s.name = p_name;
    RETURN FOUND;
END
$$;
COMMENT ON FUNCTION howdah.declare_schedule IS
    'Records that a schedule is in the code of a worker that starts. If no live worker names it any more (workers.meta, under schedules), it'
    ' was removed from the code. False if there is no schedule of this name.';
REVOKE ALL ON FUNCTION howdah.declare_schedule FROM PUBLIC;
