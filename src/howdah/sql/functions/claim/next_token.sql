-- The clock makes tokens unique across timelines: a server that is promoted without the last claims of the former one would otherwise
-- count on from the same number. The previous token makes them grow even when the clock goes back. The random part separates two
-- servers that have diverged: from a token ahead of their clocks, both would otherwise count on to the same number.
-- It has no search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.next_token(p_token bigint) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN greatest(p_token + 1 + (random() * 16777216)::bigint, (extract(epoch FROM howdah.clock()) * 1000000)::bigint);
COMMENT ON FUNCTION howdah.next_token IS 'The token after this one: it is greater, and never repeats. Internal.';
REVOKE ALL ON FUNCTION howdah.next_token FROM PUBLIC;
