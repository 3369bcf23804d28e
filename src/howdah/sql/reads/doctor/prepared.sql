SELECT
    p.gid, p.owner::text AS role, age(p.transaction) AS transactions,
    extract(epoch FROM clock_timestamp() - p.prepared)::float8 AS seconds
FROM pg_prepared_xacts AS p
WHERE p.database = current_database() AND p.prepared < clock_timestamp() - make_interval(secs => %(patience)s)
ORDER BY p.prepared
