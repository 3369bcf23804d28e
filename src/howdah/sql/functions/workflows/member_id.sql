-- As in enqueue_many: ids count up from a first one, whose bit 39 is 0, so that counting never carries into the bits before it. It has no
-- search_path of its own, so that the planner can inline it. Callers pin theirs.
CREATE OR REPLACE FUNCTION howdah.member_id(p_first_id uuid, p_place int) RETURNS uuid
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (
    left(p_first_id::text, 18) || to_hex(('x' || substr(p_first_id::text, 20, 4) || right(p_first_id::text, 12))::bit(64)::bigint + p_place)
)::uuid;
COMMENT ON FUNCTION howdah.member_id IS
    'The id of the job at this place of a node. It follows from the id of the first one: so any number of calls that add the same jobs add each once. Internal.';
REVOKE ALL ON FUNCTION howdah.member_id FROM PUBLIC;
