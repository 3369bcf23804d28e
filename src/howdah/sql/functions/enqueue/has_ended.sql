-- The first and the last id of each closed segment are recorded, and ids grow with time: so a new id is looked up in the open segment
-- alone, and an old or random one in all of them. The lock on the open segment comes before the snapshot: a row that is not seen in
-- it has not been committed, even if the segment is closed meanwhile.
CREATE OR REPLACE FUNCTION howdah.has_ended(p_ids uuid[]) RETURNS uuid
LANGUAGE plpgsql VOLATILE
-- The plan must be id = ANY, whatever the statistics: a plan made for an empty segment must hold for a full one.
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
    'One of these ids that belongs to an ended job; NULL if there is none. For a READ COMMITTED transaction. Internal.';
REVOKE ALL ON FUNCTION howdah.has_ended FROM PUBLIC;
