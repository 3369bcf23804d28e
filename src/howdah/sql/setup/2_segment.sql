DO $$
BEGIN
    IF to_regclass('howdah.archive_open') IS NULL THEN
        PERFORM howdah.open_segment(1);
    END IF;
END
$$;
