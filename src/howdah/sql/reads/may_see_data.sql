-- Whether the views show unredacted data to this login; they evaluate the same expression.
SELECT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT') AS may
