CREATE OR REPLACE FUNCTION howdah.channel() RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- With its dot, as everywhere else, so that two installations can be compared without the names of their schemas.
RETURN 'howdah_' || left(md5('howdah.'), 12);
COMMENT ON FUNCTION howdah.channel IS
    'The channel for LISTEN. Its notifications are hints: wake BUCKET, for sleepers of that bucket (see add_sleeper), news BUCKET, for'
    ' watchers of that bucket (see add_watcher), and cancel ID, for the worker that runs that job.';
REVOKE ALL ON FUNCTION howdah.channel FROM PUBLIC;
