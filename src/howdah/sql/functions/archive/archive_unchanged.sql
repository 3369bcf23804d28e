CREATE OR REPLACE FUNCTION howdah.archive_unchanged() RETURNS trigger
LANGUAGE plpgsql
AS $$
BEGIN
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.archive_unchanged IS 'An ended job does not change: a plain client''s UPDATE passes it over. A new life of it begins with retry.';
REVOKE ALL ON FUNCTION howdah.archive_unchanged FROM PUBLIC;
