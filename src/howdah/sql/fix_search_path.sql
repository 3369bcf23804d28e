-- What we install must mean PostgreSQL's own functions and operators, whatever else is in sight.
SET LOCAL search_path = pg_catalog, pg_temp;
