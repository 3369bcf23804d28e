-- What lies in a default partition is of a time for which there is no other one. Asked by the views, because a viewer reads no
-- table; between the bounds of two neighbours, the default partition is the only one that is looked at.
WITH bound AS (
    SELECT
        p.parent, substring(b.text FROM 'FROM \(''(.+?)''\)')::timestamptz AS first,
        substring(b.text FROM 'TO \(''(.+?)''\)')::timestamptz AS next
    FROM (VALUES ('archive'), ('events')) AS p (parent)
    JOIN pg_inherits AS i ON i.inhparent = ('howdah.' || p.parent)::regclass
    JOIN pg_class AS c ON c.oid = i.inhrelid
    CROSS JOIN LATERAL pg_get_expr(c.relpartbound, c.oid) AS b (text)
    WHERE b.text <> 'DEFAULT'
    UNION ALL
    SELECT p.parent, 'infinity', 'infinity' FROM (VALUES ('archive'), ('events')) AS p (parent)
), gap AS MATERIALIZED (
    SELECT g.* FROM (
        SELECT b.parent, coalesce(lag(b.next) OVER (PARTITION BY b.parent ORDER BY b.first), '-infinity') AS first, b.first AS next
        FROM bound AS b
    ) AS g
    WHERE g.first < g.next
)
SELECT
    (
        SELECT count(*) FROM gap AS g CROSS JOIN LATERAL (
            SELECT FROM howdah.job_details AS j WHERE j.finished_at >= g.first AND j.finished_at < g.next LIMIT 100000
        ) AS j
        WHERE g.parent = 'archive'
    ) AS archive,
    (
        SELECT count(*) FROM gap AS g CROSS JOIN LATERAL (
            SELECT FROM howdah.event_details AS e WHERE e.at >= g.first AND e.at < g.next LIMIT 100000
        ) AS e
        WHERE g.parent = 'events'
    ) AS events
