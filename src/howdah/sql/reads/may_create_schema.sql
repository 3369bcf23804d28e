SELECT current_user AS login, current_database() AS database, has_database_privilege(current_database(), 'CREATE') AS may
