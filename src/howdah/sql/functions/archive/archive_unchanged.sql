CREATE OR REPLACE FUNCTION howdah.archive_unchanged() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.archive_unchanged IS
    'An ended job does not change: the UPDATE of a plain client skips it. Use retry to make it pending again.';
REVOKE ALL ON FUNCTION howdah.archive_unchanged FROM PUBLIC;
