-- The claim that asks gives its own jobs tokens that are not below the time at which it began.
-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.held_from_now(p_least_token bigint) RETURNS bigint
LANGUAGE sql STABLE
RETURN least(p_least_token, (extract(epoch FROM howdah.clock()) * 1000000)::bigint);
COMMENT ON FUNCTION howdah.held_from_now IS
    'A token below which no job is held, nor will be. p_least_token: the least one of those that are held, NULL if there are none. Internal.';
REVOKE ALL ON FUNCTION howdah.held_from_now FROM PUBLIC;
