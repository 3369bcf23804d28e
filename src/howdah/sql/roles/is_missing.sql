SELECT to_regclass('howdah.schema_version') IS NULL AS is_missing \gset
