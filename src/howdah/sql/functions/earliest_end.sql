CREATE OR REPLACE FUNCTION howdah.earliest_end(p_id uuid) RETURNS timestamptz
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
    WHEN substr(p_id::text, 15, 1) = '7'
    THEN to_timestamp(('x' || replace(left(p_id::text, 13), '-', ''))::bit(48)::bigint / 1000.0) - interval '1 day'
    ELSE '-infinity'
END;
COMMENT ON FUNCTION howdah.earliest_end IS
    'No job of this id can have ended before: a UUIDv7 says when it was made, give or take a wrong clock. Spares the search of older days.';
REVOKE ALL ON FUNCTION howdah.earliest_end FROM PUBLIC;
