-- Whether this schema is available: no other tests use it, and it was made by tests.
SELECT pg_catalog.pg_try_advisory_lock(pg_catalog.hashtextextended('howdah.testing', 0))
    AND (
        pg_catalog.to_regnamespace('howdah') IS NULL
        OR pg_catalog.obj_description(pg_catalog.to_regnamespace('howdah'), 'pg_namespace') OPERATOR(pg_catalog.=) 'For tests only: they drop and recreate it.'
    ) AS taken
