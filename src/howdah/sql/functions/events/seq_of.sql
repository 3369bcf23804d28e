CREATE OR REPLACE FUNCTION howdah.seq_of(p_report jsonb) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- Less than there is room for, so that one more is never too many.
RETURN coalesce(least(greatest(howdah.number_in(p_report -> 'seq'), 0), 2000000000)::int, 0);
COMMENT ON FUNCTION howdah.seq_of IS 'How many events a job has had, by its report. Internal.';
REVOKE ALL ON FUNCTION howdah.seq_of FROM PUBLIC;
