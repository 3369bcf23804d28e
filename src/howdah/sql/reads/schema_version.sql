-- What is installed depends on the version of the server, too: after an upgrade of the server, a migration is needed.
SELECT
    version,
    oldest_client,
    digest OPERATOR(pg_catalog.=) pg_catalog.concat(%(digest)s::pg_catalog.text, '-pg', pg_catalog.current_setting('server_version_num')::int OPERATOR(pg_catalog./) 10000) AS is_current,
    -- Older versions have no such column.
    coalesce(pg_catalog.to_jsonb(v) OPERATOR(pg_catalog.->>) 'views_digest' OPERATOR(pg_catalog.=) %(views_digest)s, false) AS has_current_views,
    pg_catalog.to_jsonb(v) OPERATOR(pg_catalog.->>) 'rights' AS rights
FROM howdah.schema_version AS v
