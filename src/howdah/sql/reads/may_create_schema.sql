SELECT current_user AS login, pg_catalog.current_database() AS database, pg_catalog.has_database_privilege(pg_catalog.current_database(), 'CREATE') AS may
