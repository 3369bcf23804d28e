CREATE OR REPLACE FUNCTION howdah.adopted_unchanged() RETURNS trigger
LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RAISE EXCEPTION 'the jobs of %.% were adopted: writes to it would be lost', TG_TABLE_SCHEMA, TG_TABLE_NAME USING
        ERRCODE = 'JQ005', HINT = 'Write to jobs in the schema of Howdah. Put that schema into the search_path, after your own.';
END
$$;
COMMENT ON FUNCTION howdah.adopted_unchanged IS 'Rejects writes to a table whose jobs were adopted.';
REVOKE ALL ON FUNCTION howdah.adopted_unchanged FROM PUBLIC;
