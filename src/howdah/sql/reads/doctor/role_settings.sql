-- Settings for all sessions of this database, or of a role that can use the queue. works: it certainly affects workers, because one of
-- them sleeps with this role (its locks show it), or because it affects all roles.
SELECT
    r.rolname::text AS role, d.datname::text AS database,
    split_part(s.setting, '=', 1) AS name, substr(s.setting, strpos(s.setting, '=') + 1) AS value,
    c.setrole = 0 OR EXISTS (
        SELECT FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
        WHERE l.locktype = 'advisory' AND l.classid = 'howdah.live'::regclass AND l.objsubid = 2 AND l.objid::int < 32
            AND a.usename = r.rolname
    ) AS works
FROM pg_db_role_setting AS c
CROSS JOIN unnest(c.setconfig) AS s (setting)
LEFT JOIN pg_database AS d ON d.oid = c.setdatabase
LEFT JOIN pg_roles AS r ON r.oid = c.setrole
WHERE (c.setdatabase = 0 OR d.datname = current_database())
    AND split_part(s.setting, '=', 1) = ANY (%(names)s::text[])
    AND (c.setrole = 0 OR has_schema_privilege(r.oid, 'howdah'::regnamespace, 'USAGE'))
ORDER BY 3, 1, 2
