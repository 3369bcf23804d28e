CREATE OR REPLACE FUNCTION howdah.seq_of(p_report jsonb) RETURNS int
LANGUAGE sql IMMUTABLE PARALLEL SAFE
-- Well below the maximum of int, so that adding to it cannot overflow.
RETURN coalesce(least(greatest(howdah.number_in(p_report -> 'seq'), 0), 2000000000)::int, 0);
COMMENT ON FUNCTION howdah.seq_of IS 'The number of events of a job, by its progress_report. Internal.';
REVOKE ALL ON FUNCTION howdah.seq_of FROM PUBLIC;
