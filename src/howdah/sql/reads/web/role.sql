-- The role of viewers, if the schema has its roles, and whether this login may take it.
SELECT r.rolname::pg_catalog.text AS role, pg_catalog.pg_has_role(r.oid, 'MEMBER') AS may, session_user::pg_catalog.text AS login
FROM pg_catalog.pg_namespace AS n
JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) pg_catalog.to_regrole('howdah_viewer')
WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
    AND n.nspowner OPERATOR(pg_catalog.=) pg_catalog.to_regrole('howdah_owner')
