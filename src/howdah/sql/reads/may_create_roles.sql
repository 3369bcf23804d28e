-- Whether the login that migrates can create and own the roles, and what is missing for it.
SELECT
    current_user AS login,
    ARRAY(
        SELECT role FROM unnest(ARRAY['howdah_owner', 'howdah_producer', 'howdah_worker', 'howdah_viewer', 'howdah_operator']) AS role
        WHERE to_regrole(role) IS NULL
    ) AS missing,
    r.rolsuper OR r.rolcreaterole AS may_create,
    r.rolsuper OR (r.rolcreaterole AND current_setting('server_version_num')::int < 160000)
        OR coalesce(pg_has_role(to_regrole('howdah_owner'), 'MEMBER'), true) AS may_own
FROM pg_catalog.pg_roles AS r WHERE r.rolname = current_user
