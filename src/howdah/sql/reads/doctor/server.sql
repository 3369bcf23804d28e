SELECT
    pg_is_in_recovery() AS in_recovery,
    current_setting('transaction_read_only') = 'on' AS read_only,
    pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
    current_user::text AS role,
    current_database()::text AS database,
    -- By name: to_regclass would ask for rights that not everybody has.
    EXISTS (
        SELECT FROM pg_class AS c WHERE c.relnamespace = to_regnamespace('howdah') AND c.relname = 'schema_version'
    ) AS installed,
    EXISTS (
        SELECT FROM pg_stat_activity AS a WHERE a.datname = current_database() AND a.usename <> current_user
    ) AS others_are_here
