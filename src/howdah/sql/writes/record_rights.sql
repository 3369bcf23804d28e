UPDATE howdah.schema_version SET rights = howdah.rights(%(relations)s::pg_catalog.text[], %(functions)s::pg_catalog.text[])
