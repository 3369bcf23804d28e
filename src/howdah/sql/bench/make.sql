CREATE SCHEMA howdah;
COMMENT ON SCHEMA howdah IS 'Made by the command bench, which drops it when it ends, or replaces it when it begins.';
