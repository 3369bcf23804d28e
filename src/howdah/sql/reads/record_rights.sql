UPDATE howdah.schema_version SET rights = howdah.rights(%(relations)s::text[], %(functions)s::text[])
