-- As this session got them: without patience.sql of the other checks, which would change them.
SELECT s.name, s.setting, s.source, s.boot_val FROM pg_catalog.pg_settings AS s
WHERE s.name OPERATOR(pg_catalog.=) ANY (%(names)s::pg_catalog.text[]) ORDER BY s.name
