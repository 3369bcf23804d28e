-- Whether the views show data as it is to this login; what they ask, too.
SELECT pg_catalog.has_table_privilege('howdah.live'::pg_catalog.regclass, 'SELECT') AS may
