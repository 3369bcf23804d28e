SELECT s.name, s.setting, s.source FROM pg_settings AS s WHERE s.name = ANY (%(names)s::text[]) ORDER BY s.name
