-- Whether this schema can be had: nobody else's tests use it, and it is not somebody's own.
SELECT pg_try_advisory_lock(hashtextextended('howdah.testing', 0))
    AND (
        to_regnamespace('howdah') IS NULL
        OR obj_description(to_regnamespace('howdah'), 'pg_namespace') = 'For tests alone: they drop it, and make it anew.'
    ) AS taken
