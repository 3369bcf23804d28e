-- All names in what is installed must resolve to functions and operators of PostgreSQL, whatever the search_path of the login.
SET LOCAL search_path = pg_catalog, pg_temp;
