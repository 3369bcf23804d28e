SET LOCAL search_path = howdah, pg_catalog;
