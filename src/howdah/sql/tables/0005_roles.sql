-- Roles.

ALTER TABLE howdah.schema_version ADD COLUMN views_digest text;
COMMENT ON COLUMN howdah.schema_version.views_digest IS
    'Tells one version of the views from another: to replace one waits for all who read it, so it is done only where it changes.';
