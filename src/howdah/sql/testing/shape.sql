-- What tells whether a table, index, function or trigger was made, changed or dropped. The clock is looked at
-- by what it does: a test may have changed it and put it right again.
SELECT md5(string_agg(part, ' ' ORDER BY part)) AS shape
FROM (
    SELECT concat(c.oid, '@', c.xmin) AS part FROM pg_class AS c WHERE c.relnamespace = to_regnamespace('howdah')
    UNION ALL
    SELECT concat(p.oid, '@', CASE p.proname WHEN 'clock' THEN pg_get_function_sqlbody(p.oid) ELSE p.xmin::text END)
    FROM pg_proc AS p WHERE p.pronamespace = to_regnamespace('howdah')
    UNION ALL
    SELECT concat(t.oid, '@', t.xmin) FROM pg_trigger AS t
    JOIN pg_class AS c ON c.oid = t.tgrelid WHERE c.relnamespace = to_regnamespace('howdah')
) AS parts
