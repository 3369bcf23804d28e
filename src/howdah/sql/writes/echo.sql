SELECT pg_catalog.pg_notify(howdah.channel(), 'echo ' || %(payload)s::text)
