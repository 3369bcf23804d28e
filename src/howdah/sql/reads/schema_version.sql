SELECT version, oldest_client, digest, howdah_version FROM howdah.schema_version
