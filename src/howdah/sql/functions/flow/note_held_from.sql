-- A claim that began earlier than another, and comes to a key after it, would give its jobs a token below held_from.
CREATE OR REPLACE FUNCTION howdah.note_held_from(p_held_from bigint) RETURNS void
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT set_config('jobqueue.held_from', p_held_from::text, true)
    WHERE p_held_from > coalesce(nullif(current_setting('jobqueue.held_from', true), '')::bigint, 0)
$$;
COMMENT ON FUNCTION howdah.note_held_from IS 'Notes a held_from that a claim has seen: it gives its jobs tokens above it. Part of claim.';
REVOKE ALL ON FUNCTION howdah.note_held_from FROM PUBLIC;
