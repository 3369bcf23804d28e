DO $$
BEGIN
    IF (SELECT v.version FROM howdah.schema_version AS v) <> %(version)s THEN
        RAISE EXCEPTION 'this schema has another version than %(version)s: bring it up to date, and run this again';
    END IF;
END
$$;
