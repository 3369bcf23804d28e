WITH session AS (
    SELECT a.datname, a.usename::text AS role, a.application_name AS application FROM pg_stat_activity AS a
    WHERE a.backend_type = 'client backend' OR (a.backend_type IS NULL AND a.datname IS NOT NULL)
), room AS (
    SELECT
        'the server' AS whose,
        current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
            - coalesce(current_setting('reserved_connections', true)::int, 0) AS most,
        (SELECT count(*) FROM session) AS used
    UNION ALL
    SELECT 'database ' || d.datname, d.datconnlimit, (SELECT count(*) FROM session AS s WHERE s.datname = d.datname)
    FROM pg_database AS d WHERE d.datname = current_database() AND d.datconnlimit >= 0
    UNION ALL
    SELECT 'role ' || r.rolname, r.rolconnlimit, (SELECT count(*) FROM session AS s WHERE s.role = r.rolname)
    FROM pg_roles AS r WHERE r.rolname = current_user AND r.rolconnlimit >= 0
)
SELECT
    room.whose, room.most, room.used, room.whose = 'the server' AS is_server,
    (
        SELECT jsonb_agg(jsonb_build_object('role', m.role, 'application', m.application, 'connections', m.n))
        FROM (
            SELECT s.role, s.application, count(*) AS n FROM session AS s GROUP BY 1, 2 ORDER BY n DESC, 1, 2 LIMIT 5
        ) AS m
    ) AS holders
FROM room
