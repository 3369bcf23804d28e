-- A dump without data contains this comment, too.
COMMENT ON COLUMN howdah.schema_version.version IS 'The tables are of version %(version)s';
