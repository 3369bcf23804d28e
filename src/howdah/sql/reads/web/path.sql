-- An error if it is no path.
SELECT %(path)s::pg_catalog.jsonpath IS NOT NULL AS is_path
