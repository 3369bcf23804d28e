-- A statement that names last_error says why an attempt failed, be it with the same words as before. Nothing in the row tells;
-- a trigger that fires BEFORE UPDATE OF last_error does, however the statement is written.
CREATE OR REPLACE FUNCTION howdah.plain_names_error() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.names_error := true;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.plain_names_error IS 'Tells plain_update that a plain client''s UPDATE names last_error.';
REVOKE ALL ON FUNCTION howdah.plain_names_error FROM PUBLIC;
