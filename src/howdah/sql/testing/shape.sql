-- Changes when a table, index, function or trigger was created, changed or dropped. The function clock counts by its body: a test may
-- have replaced it and restored it.
SELECT pg_catalog.md5(pg_catalog.string_agg(part, ' ' ORDER BY part)) AS shape
FROM (
    SELECT pg_catalog.concat(c.oid, '@', c.xmin) AS part FROM pg_catalog.pg_class AS c WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
    UNION ALL
    SELECT pg_catalog.concat(p.oid, '@', CASE WHEN p.proname OPERATOR(pg_catalog.=) 'clock' THEN pg_catalog.pg_get_function_sqlbody(p.oid) ELSE p.xmin::pg_catalog.text END)
    FROM pg_catalog.pg_proc AS p WHERE p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
    UNION ALL
    SELECT pg_catalog.concat(t.oid, '@', t.xmin) FROM pg_catalog.pg_trigger AS t
    JOIN pg_catalog.pg_class AS c ON c.oid OPERATOR(pg_catalog.=) t.tgrelid WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
) AS parts
