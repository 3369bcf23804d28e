INSERT INTO howdah.schema_version AS v (version, oldest_client, digest, howdah_version, views_digest)
VALUES (%(version)s, %(oldest_client)s, %(digest)s || '-pg' || current_setting('server_version_num')::int / 10000, %(howdah_version)s, %(views_digest)s)
ON CONFLICT (only_row) DO UPDATE SET
    version = excluded.version, oldest_client = excluded.oldest_client, digest = excluded.digest,
    howdah_version = excluded.howdah_version, views_digest = excluded.views_digest, migrated_at = now()
