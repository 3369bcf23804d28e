SELECT 'invalid' AS problem, x.relname::text AS name, t.relname::text AS relation
FROM pg_index AS i
JOIN pg_class AS x ON x.oid = i.indexrelid
JOIN pg_class AS t ON t.oid = i.indrelid
WHERE t.relnamespace = 'howdah'::regnamespace AND NOT (i.indisvalid AND i.indisready AND i.indislive)
    -- Not an index that is being built right now.
    AND NOT EXISTS (
        SELECT FROM pg_stat_progress_create_index AS p
        WHERE p.datname = current_database() AND coalesce(p.relid, t.oid) = t.oid
    )
UNION ALL
SELECT 'missing', e.name, NULL FROM unnest(%(expected)s::text[]) AS e (name)
WHERE to_regclass('howdah.' || quote_ident(e.name)) IS NULL
ORDER BY 1, 2
