-- Sessions that block advisory locks of Howdah. Any login can take them, because their numbers can be computed. Sessions of Howdah hold
-- those of sleepers (0 to 31) and of watchers (32 to 63) in shared mode for long, and others for a moment, for a migration, or for a
-- bulk that adds jobs. So an idle session with an exclusive lock is not one of Howdah; nor is a login without rights on the schema.
SELECT
    a.pid, a.usename::text AS role, a.application_name AS application, host(a.client_addr) AS client, a.state, a.query,
    extract(epoch FROM clock_timestamp() - coalesce(a.xact_start, a.state_change))::float8 AS seconds,
    array_agg(DISTINCT lock.purpose ORDER BY lock.purpose) AS purposes
FROM pg_locks AS l
JOIN pg_stat_activity AS a ON a.pid = l.pid
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = hashtextextended('howdah.migrate', 0) THEN 'migrate'
        WHEN l.objsubid = 2 AND l.classid = 'howdah.types'::regclass THEN 'add bulks with keys'
        WHEN l.objsubid <> 2 OR l.classid <> 'howdah.live'::regclass THEN NULL
        WHEN l.objid::bigint < 32 THEN 'be woken'
        WHEN l.objid::bigint < 64 THEN 'watch'
        WHEN l.objid::bigint < 96 THEN 'wake workers'
    END AS purpose
) AS lock
WHERE l.locktype = 'advisory' AND l.granted AND l.pid <> pg_backend_pid() AND lock.purpose IS NOT NULL
    AND l.database = (SELECT d.oid FROM pg_database AS d WHERE d.datname = current_database())
    AND (
        NOT coalesce(has_schema_privilege(a.usesysid, 'howdah'::regnamespace, 'USAGE'), false)
        OR a.state LIKE 'idle%%' AND a.state_change <= clock_timestamp() - make_interval(secs => %(seconds)s)
            AND (l.mode = 'ExclusiveLock' OR lock.purpose NOT IN ('be woken', 'watch'))
            AND NOT EXISTS (
                SELECT FROM pg_locks AS w
                WHERE w.virtualtransaction = l.virtualtransaction AND w.relation = 'howdah.live'::regclass
                    AND w.mode = 'RowExclusiveLock' AND w.granted
            )
    )
GROUP BY a.pid, a.usename, a.application_name, a.client_addr, a.state, a.query, a.xact_start, a.state_change
ORDER BY seconds DESC NULLS LAST, a.pid
