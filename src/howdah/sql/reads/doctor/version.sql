SELECT
    v.version, v.oldest_client, v.howdah_version AS installed_by,
    v.digest = %(digest)s || '-pg' || current_setting('server_version_num')::int / 10000 AS is_current
FROM howdah.schema_version AS v
