CREATE SCHEMA howdah;
COMMENT ON SCHEMA howdah IS 'For tests alone: they drop it, and make it anew.';
