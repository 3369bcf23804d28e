-- By the clock, a token does not come again on another timeline: a server that is promoted without the last claims of the former one
-- would count from the same number. By more than before, it grows even where the clock goes back; and by chance, because two servers
-- that have parted would count on from a token that is ahead of their clocks to the same number.
-- Without a search_path of its own, so that the planner puts it in its place. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.next_token(p_token bigint) RETURNS bigint
LANGUAGE sql VOLATILE
RETURN greatest(p_token + 1 + (random() * 16777216)::bigint, (extract(epoch FROM howdah.clock()) * 1000000)::bigint);
COMMENT ON FUNCTION howdah.next_token IS 'The token that comes after this one: it grows, and never repeats. Internal.';
REVOKE ALL ON FUNCTION howdah.next_token FROM PUBLIC;
