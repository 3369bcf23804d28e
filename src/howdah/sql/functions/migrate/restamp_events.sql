-- Events carry the number of their transaction, by which read_events tells what is new. After a dump is restored into a younger
-- cluster, these numbers lie ahead of it: the cluster would come to them one day, and old events would come as new. So all events that are
-- there become those of a transaction that is over for certain. The counter leaps, so that every later position differs from those of
-- the other cluster, which may have gone on after the dump.
CREATE OR REPLACE FUNCTION howdah.restamp_events() RETURNS bigint
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_last bigint := greatest(
        (SELECT c.last_value FROM howdah.event_counter AS c), (SELECT e.stream_no FROM howdah.events AS e ORDER BY e.stream_no DESC LIMIT 1)
    );
    v_changed bigint;
BEGIN
    UPDATE howdah.events AS e SET xid = '2' WHERE e.xid <> '2' AND e.stream_no <= v_last;
    GET DIAGNOSTICS v_changed = ROW_COUNT;
    UPDATE howdah.schema_version AS v SET stream_from = setval('howdah.event_counter', v_last + 1000000000);
    RETURN v_changed;
END
$$;
COMMENT ON FUNCTION howdah.restamp_events IS
    'Makes all events those of a transaction that is long over, after they were restored from another cluster. Positions in the stream from before are lost. Returns how many. Internal.';
REVOKE ALL ON FUNCTION howdah.restamp_events FROM PUBLIC;
