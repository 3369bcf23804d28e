-- Whether this schema can be had: nobody else's tests use it, and it is not somebody's own.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('howdah.testing', 0))
    AND (
        pg_catalog.to_regnamespace('howdah') IS NULL
        OR pg_catalog.obj_description(pg_catalog.to_regnamespace('howdah'), 'pg_namespace') OPERATOR(pg_catalog.=) 'For tests alone: they drop it, and make it anew.'
    ) AS taken
