-- Whether the schema exists, and whether a demo made it.
SELECT
    to_regnamespace('howdah') IS NOT NULL AS is_there,
    obj_description(to_regnamespace('howdah'), 'pg_namespace')
        IS NOT DISTINCT FROM 'Made by the demo, which clears it each time that it begins.' AS is_the_demos
