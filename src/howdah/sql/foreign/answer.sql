-- The rows of a statement on a connection of another driver, as text: so the caller's settings, codecs and type converters change nothing.
-- record_send has the types of the columns and their values in binary, as psycopg receives them. The first row also has their names. The
-- format is a parameter, because drivers unescape percent signs only in a statement that has some.
SELECT
    CASE WHEN pg_catalog.row_number() OVER () OPERATOR(pg_catalog.=) 1 THEN
        pg_catalog.array_to_string(ARRAY(SELECT pg_catalog.json_object_keys(pg_catalog.row_to_json(r))), ',')
    END,
    pg_catalog.encode(pg_catalog.record_send(r), %(format)s::pg_catalog.text)
FROM (
%(statement)s
) AS r
