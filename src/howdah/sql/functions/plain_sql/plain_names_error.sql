-- A statement that sets last_error gives the reason of a failed attempt, even if the text is the same as before. The row does not show
-- this; a trigger BEFORE UPDATE OF last_error does, however the statement is written.
CREATE OR REPLACE FUNCTION howdah.plain_names_error() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    NEW.names_error := true;
    RETURN NEW;
END
$$;
COMMENT ON FUNCTION howdah.plain_names_error IS 'Marks the row for plain_update if the UPDATE of a plain client sets last_error.';
REVOKE ALL ON FUNCTION howdah.plain_names_error FROM PUBLIC;
