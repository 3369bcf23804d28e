-- Whether the schema exists, and whether a demo made it.
SELECT
    pg_catalog.to_regnamespace('howdah') IS NOT NULL AS is_there,
    coalesce(
        pg_catalog.obj_description(pg_catalog.to_regnamespace('howdah'), 'pg_namespace')
            OPERATOR(pg_catalog.=) 'Made by the demo, which clears it each time that it begins.',
        false
    ) AS is_of_a_demo
