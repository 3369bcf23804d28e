-- Each closed segment knows the first and the last of its ids, and ids grow with time: so a new one is looked for in the open
-- segment alone, and an old or a random one in all of them. The lock on the open segment comes before the snapshot: what is
-- not seen in it has not been committed, whether it has been closed meanwhile or not.
CREATE OR REPLACE FUNCTION howdah.has_ended(p_ids uuid[]) RETURNS uuid
LANGUAGE plpgsql VOLATILE
-- By id = ANY, whatever the planner knows: a plan made for an empty segment must hold for a full one.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_id uuid := (SELECT a.id FROM howdah.archive_open AS a WHERE a.id = ANY (p_ids) LIMIT 1);
BEGIN
    IF v_id IS NULL AND EXISTS (
        SELECT FROM howdah.segments AS s, unnest(p_ids) AS i (id) WHERE i.id BETWEEN s.first_id AND s.last_id
    ) THEN
        v_id := (SELECT a.id FROM howdah.archive AS a WHERE a.id = ANY (p_ids) LIMIT 1);
    END IF;
    RETURN v_id;
END
$$;
COMMENT ON FUNCTION howdah.has_ended IS
    'One of these ids that an ended job has; NULL if none has. For a READ COMMITTED transaction. Internal.';
REVOKE ALL ON FUNCTION howdah.has_ended FROM PUBLIC;
