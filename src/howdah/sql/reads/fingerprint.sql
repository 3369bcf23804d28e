-- Everything that defines a schema of Howdah, as text that does not depend on its name (search_path contains it, so nothing is
-- qualified). Closed segments count, each under its own name: they must equal the open one, except for the numbers in the names of
-- their indexes, and their bounds.
WITH relation AS (
    SELECT
        c.oid, c.relname, c.relkind, c.reloptions, c.relrowsecurity, c.relforcerowsecurity,
        c.relname ~ '^(archive|events)_(open|next|[0-9]+)$' AS is_segment
    FROM pg_catalog.pg_class AS c
    WHERE c.relnamespace = %(schema)s::regnamespace AND (
        -- If the schema contains other objects too, only those of Howdah count.
        c.relname = ANY (%(relations)s::text[])
        OR c.relkind = 'r' AND c.relname ~ '^(archive|events)_[0-9]+$' AND EXISTS (
            SELECT FROM pg_catalog.pg_inherits AS i JOIN pg_catalog.pg_class AS p ON p.oid = i.inhparent
            WHERE i.inhrelid = c.oid AND p.relnamespace = c.relnamespace AND p.relname IN ('archive', 'events')
        )
    )
)
SELECT 'relation' AS kind, relname::text AS name, concat_ws(
    ' ', relkind, reloptions::text, CASE WHEN relrowsecurity THEN 'ROW SECURITY' END, CASE WHEN relforcerowsecurity THEN 'FORCED' END
) AS definition
FROM relation
UNION ALL
SELECT 'column', format('%%s.%%s', r.relname, a.attname), concat_ws(
    ' ', a.attnum, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' END,
    pg_get_expr(d.adbin, d.adrelid, true)
)
FROM relation AS r
JOIN pg_catalog.pg_attribute AS a ON a.attrelid = r.oid AND a.attnum > 0 AND NOT a.attisdropped
LEFT JOIN pg_catalog.pg_attrdef AS d ON d.adrelid = r.oid AND d.adnum = a.attnum
WHERE r.relkind IN ('r', 'p', 'v', 'c')
UNION ALL
SELECT 'constraint', format('%%s.%%s', r.relname, k.conname), pg_get_constraintdef(k.oid, true)
FROM relation AS r JOIN pg_catalog.pg_constraint AS k ON k.conrelid = r.oid
-- The column shows that it is NOT NULL; the name of that constraint depends on what else there is.
WHERE k.conname <> 'archive_ends' AND k.contype <> 'n'
UNION ALL
SELECT
    'index',
    CASE WHEN r.is_segment THEN concat_ws('.', r.relname, regexp_replace(x.relname, '^[a-z]+_[0-9]+_', '')) ELSE x.relname END,
    concat_ws(
        ' ',
        CASE
            WHEN r.is_segment THEN regexp_replace(pg_get_indexdef(i.indexrelid, 0, true), 'INDEX \S+ ON \S+', 'INDEX')
            ELSE pg_get_indexdef(i.indexrelid, 0, true)
        END,
        CASE WHEN NOT i.indisvalid THEN 'INVALID' END
    )
FROM relation AS r
JOIN pg_catalog.pg_index AS i ON i.indrelid = r.oid
JOIN pg_catalog.pg_class AS x ON x.oid = i.indexrelid
-- An optional index for plain clients with a large backlog, created by hand.
WHERE x.relname <> 'live_plain'
UNION ALL
SELECT 'view', r.relname::text, pg_get_viewdef(r.oid, true) FROM relation AS r WHERE r.relkind = 'v'
UNION ALL
SELECT 'rule', format('%%s.%%s', r.relname, w.rulename), concat_ws(' ', w.ev_enabled, pg_get_ruledef(w.oid, true))
FROM relation AS r JOIN pg_catalog.pg_rewrite AS w ON w.ev_class = r.oid WHERE w.rulename <> '_RETURN'
UNION ALL
SELECT 'trigger', format('%%s.%%s', r.relname, t.tgname), concat_ws(
    ' ', t.tgenabled, CASE WHEN r.is_segment THEN regexp_replace(pg_get_triggerdef(t.oid, true), ' ON \S+ ', ' ') ELSE pg_get_triggerdef(t.oid, true) END
)
FROM relation AS r JOIN pg_catalog.pg_trigger AS t ON t.tgrelid = r.oid WHERE NOT t.tgisinternal
UNION ALL
SELECT 'function', p.proname::text, concat_ws(
    ' ', pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.provolatile, p.proparallel, p.prosecdef::text,
    p.proconfig::text, replace(p.prosrc, format('"%%s".', %(schema)s::text), ''),
    replace(replace(pg_get_function_sqlbody(p.oid), format('"%%s".', %(schema)s::text), ''), %(schema)s::text || '.', '')
)
FROM pg_catalog.pg_proc AS p
WHERE p.pronamespace = %(schema)s::regnamespace AND p.proname = ANY (%(functions)s::text[])
ORDER BY 1, 2, 3
