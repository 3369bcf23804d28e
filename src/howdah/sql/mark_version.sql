-- A dump without data has it nevertheless.
COMMENT ON COLUMN howdah.schema_version.version IS 'The tables are of version %(version)s';
