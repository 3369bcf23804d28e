CREATE OR REPLACE FUNCTION howdah.with_seq(p_report jsonb, p_more int) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE WHEN jsonb_typeof(p_report) <> 'object' THEN '{}' ELSE p_report END || jsonb_build_object('seq', howdah.seq_of(p_report) + p_more);
COMMENT ON FUNCTION howdah.with_seq IS 'A progress_report with this many more events counted; NULL for NULL. Internal.';
REVOKE ALL ON FUNCTION howdah.with_seq FROM PUBLIC;
