CREATE OR REPLACE FUNCTION howdah.seq_of(p_report jsonb) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce((p_report ->> 'seq')::int, 0);
COMMENT ON FUNCTION howdah.seq_of IS 'How many events a job has had, by its report. Internal.';
REVOKE ALL ON FUNCTION howdah.seq_of FROM PUBLIC;
