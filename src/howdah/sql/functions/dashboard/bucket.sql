-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.bucket(p_span interval) RETURNS smallint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN least(greatest(1 + floor(5.770780163555854::float8 * ln(greatest(date_part('epoch', p_span), 1e-9::float8) * 1000::float8)), 0), 120)::smallint;
COMMENT ON FUNCTION howdah.bucket IS
    'The bucket of a histogram that a duration falls into: 0 below a millisecond, from there on four for each doubling. Internal.';
REVOKE ALL ON FUNCTION howdah.bucket FROM PUBLIC;
