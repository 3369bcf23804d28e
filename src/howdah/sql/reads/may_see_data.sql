-- Whether the views show data as it is to this login; what they ask, too.
SELECT has_table_privilege('howdah.live'::regclass, 'SELECT') AS may
