-- Who uses something of the schema, the plain table of jobs, or the lock of migrations, and has for longer than a migration waits: the oldest first.
-- State and time are not told of somebody else's session.
SELECT
    a.pid,
    concat_ws(
        ', ', a.usename, coalesce(nullif(a.application_name, ''), nullif(a.backend_type, 'client backend'), 'unnamed'), a.state,
        'since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
    ) AS what
FROM pg_catalog.pg_stat_activity AS a
WHERE a.pid <> pg_backend_pid() AND coalesce(a.xact_start < now() - %(wait)s::interval, true) AND EXISTS (
    SELECT FROM pg_catalog.pg_locks AS l
    WHERE l.pid = a.pid AND l.granted AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
        AND (
            l.relation IN (
                SELECT c.oid FROM pg_catalog.pg_class AS c WHERE c.relnamespace = to_regnamespace('howdah') OR c.oid = to_regclass('jobs')
            )
            OR l.locktype = 'advisory' AND l.objsubid = 1
                AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('howdah.migrate', 0)
        )
)
ORDER BY a.xact_start LIMIT 5
