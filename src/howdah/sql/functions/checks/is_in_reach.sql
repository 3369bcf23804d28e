-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.is_in_reach(p_at timestamptz) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_at BETWEEN timestamptz '0001-01-02 00:00:00+00' AND timestamptz '9999-12-30 00:00:00+00';
COMMENT ON FUNCTION howdah.is_in_reach IS
    'Whether a time can be subtracted from any other such: a plain client may have written one of any year, or an infinite one. Internal.';
REVOKE ALL ON FUNCTION howdah.is_in_reach FROM PUBLIC;
