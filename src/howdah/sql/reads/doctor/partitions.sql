SELECT
    p.parent,
    ARRAY(
        SELECT d.day FROM (
            SELECT (howdah.clock() AT TIME ZONE 'UTC')::date + n AS day FROM generate_series(0, 1) AS n
        ) AS d
        WHERE NOT EXISTS (
            SELECT FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
            WHERE i.inhparent = ('howdah.' || p.parent)::regclass AND c.relname = p.parent || '_' || to_char(d.day, 'YYYYMMDD')
        )
        ORDER BY 1
    ) AS missing
FROM (VALUES ('archive'), ('events')) AS p (parent)
