-- What is installed depends on the server's version too: an upgrade of it calls for a migration.
SELECT
    version,
    oldest_client,
    digest = %(digest)s || '-pg' || current_setting('server_version_num')::int / 10000 AS is_current,
    -- Older versions have no such column.
    coalesce(to_jsonb(v) ->> 'views_digest' = %(views_digest)s, false) AS has_current_views,
    to_jsonb(v) ->> 'rights' AS rights
FROM howdah.schema_version AS v
