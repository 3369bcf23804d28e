DO $$
BEGIN
    IF (SELECT v.version FROM howdah.schema_version AS v) <> %(version)s THEN
        RAISE EXCEPTION 'this schema is not of version %(version)s: run the command migrate, and then this again';
    END IF;
END
$$;
