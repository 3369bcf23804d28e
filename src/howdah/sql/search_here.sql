SET LOCAL search_path = pg_catalog, howdah, pg_temp;
