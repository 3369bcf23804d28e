CREATE SCHEMA howdah;
COMMENT ON SCHEMA howdah IS 'Made by the demo, which clears it each time that it begins.';
