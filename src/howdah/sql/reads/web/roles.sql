-- The roles of viewers and operators, if the schema has its roles, and whether this login may take them.
SELECT k.kind, r.rolname::pg_catalog.text AS role, pg_catalog.pg_has_role(r.oid, 'MEMBER') AS may, session_user::pg_catalog.text AS login
FROM pg_catalog.pg_namespace AS n
CROSS JOIN LATERAL (
    VALUES ('viewer', pg_catalog.to_regrole('howdah_viewer')), ('operator', pg_catalog.to_regrole('howdah_operator'))
) AS k (kind, id)
JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) k.id
WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
    AND n.nspowner OPERATOR(pg_catalog.=) pg_catalog.to_regrole('howdah_owner')
