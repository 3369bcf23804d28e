SELECT
    pg_is_in_recovery() AS in_recovery,
    current_setting('transaction_read_only') = 'on' AS read_only,
    pg_has_role('pg_read_all_stats', 'USAGE') AS sees_all,
    current_user::text AS role,
    current_database()::text AS database,
    to_regclass('howdah.schema_version') IS NOT NULL AS installed,
    EXISTS (
        SELECT FROM pg_stat_activity AS a WHERE a.datname = current_database() AND a.usename <> current_user
    ) AS others_are_here
