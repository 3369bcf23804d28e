CREATE OR REPLACE FUNCTION howdah.channel() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- With its dot, as everywhere else, so that two installations can be compared without their schemas' names.
RETURN 'howdah_' || left(md5('howdah.'), 12);
COMMENT ON FUNCTION howdah.channel IS
    'The channel for LISTEN. Its notifications are hints: wake BUCKET, for those who sleep there (see add_sleeper), news'
    ' BUCKET, for those who watch there (see add_watcher), and cancel ID, for whoever runs that job.';
REVOKE ALL ON FUNCTION howdah.channel FROM PUBLIC;
