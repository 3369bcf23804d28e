-- Whether the schema exists, and whether a bench made it.
SELECT
    to_regnamespace('howdah') IS NOT NULL AS is_there,
    obj_description(to_regnamespace('howdah'), 'pg_namespace')
        IS NOT DISTINCT FROM 'Made by the command bench, which drops it when it ends, or replaces it when it begins.'
        AS is_a_benches
