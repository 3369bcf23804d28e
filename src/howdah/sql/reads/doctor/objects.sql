-- The comparison that needs no right to create a schema: which objects do not exist at all.
SELECT 'relation' AS kind, e.name FROM unnest(%(relations)s::text[]) AS e (name)
WHERE NOT EXISTS (SELECT FROM pg_class AS c WHERE c.relnamespace = 'howdah'::regnamespace AND c.relname = e.name)
UNION ALL
SELECT 'function', e.name FROM unnest(%(functions)s::text[]) AS e (name)
WHERE NOT EXISTS (SELECT FROM pg_proc AS p WHERE p.pronamespace = 'howdah'::regnamespace AND p.proname = e.name)
ORDER BY 1, 2
