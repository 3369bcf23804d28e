SELECT pg_catalog.pg_notify(howdah.channel(), 'echo ' OPERATOR(pg_catalog.||) %(payload)s::pg_catalog.text)
