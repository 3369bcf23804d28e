CREATE SCHEMA howdah;
COMMENT ON SCHEMA howdah IS 'For tests only: they drop and recreate it.';
