-- Sessions that have held a lock on the schema, on the plain table of jobs, or of migrations, for longer than a migration waits: the
-- oldest first. PostgreSQL hides state and time of the sessions of other roles.
SELECT
    a.pid,
    pg_catalog.concat_ws(
        ', ',
        a.usename,
        CASE
            WHEN a.application_name OPERATOR(pg_catalog.<>) '' THEN a.application_name
            WHEN a.backend_type OPERATOR(pg_catalog.<>) 'client backend' THEN a.backend_type
            ELSE 'unnamed'
        END,
        a.state,
        'since ' OPERATOR(pg_catalog.||) pg_catalog.to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
    ) AS what
FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid OPERATOR(pg_catalog.<>) pg_catalog.pg_backend_pid()
    AND coalesce(a.xact_start OPERATOR(pg_catalog.<) (pg_catalog.now() OPERATOR(pg_catalog.-) %(wait)s::interval), true)
    AND EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    WHERE l.pid OPERATOR(pg_catalog.=) a.pid AND l.granted
        AND l.database OPERATOR(pg_catalog.=) (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database())
        AND (
            l.relation OPERATOR(pg_catalog.=) ANY (
                SELECT c.oid FROM pg_catalog.pg_class AS c
                WHERE c.relnamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah') OR c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('jobs')
            )
            OR l.locktype OPERATOR(pg_catalog.=) 'advisory' AND l.objsubid OPERATOR(pg_catalog.=) 1
                AND (l.classid::bigint OPERATOR(pg_catalog.<<) 32 OPERATOR(pg_catalog.|) l.objid::bigint) OPERATOR(pg_catalog.=) pg_catalog.hashtextextended('howdah.migrate', 0)
        )
)
ORDER BY a.xact_start LIMIT 5
