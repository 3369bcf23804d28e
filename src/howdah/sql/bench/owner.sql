-- Whether the schema exists, and whether a bench made it.
SELECT
    pg_catalog.to_regnamespace('howdah') IS NOT NULL AS is_there,
    coalesce(
        pg_catalog.obj_description(pg_catalog.to_regnamespace('howdah'), 'pg_namespace')
            OPERATOR(pg_catalog.=) 'Made by the command bench, which drops it when it ends, or replaces it when it begins.',
        false
    ) AS is_of_a_bench
