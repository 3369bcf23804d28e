SELECT pg_catalog.set_config('lock_timeout', %(wait)s, true)
