SELECT
    pg_is_in_recovery() AS in_recovery,
    current_setting('transaction_read_only') = 'on' AS read_only,
    (SELECT s.source FROM pg_settings AS s WHERE s.name = 'default_transaction_read_only') AS read_only_source,
    current_user::text AS role,
    current_database()::text AS database,
    -- By name: to_regclass would need rights that not every login has.
    EXISTS (
        SELECT FROM pg_class AS c WHERE c.relnamespace = to_regnamespace('howdah') AND c.relname = 'schema_version'
    ) AS installed,
    EXISTS (
        SELECT FROM pg_namespace AS n WHERE n.oid = to_regnamespace('howdah') AND n.nspowner = to_regrole('howdah_owner')
    ) AS has_roles,
    NOT pg_has_role('pg_read_all_stats', 'USAGE') AND EXISTS (
        SELECT FROM pg_stat_activity AS a WHERE a.datname = current_database() AND NOT pg_has_role(a.usesysid, 'USAGE')
        UNION ALL
        SELECT FROM pg_stat_replication AS r WHERE NOT pg_has_role(r.usesysid, 'USAGE')
    ) AS hides_sessions
