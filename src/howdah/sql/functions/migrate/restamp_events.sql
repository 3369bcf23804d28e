-- Each event has the id of its transaction, by which read_events detects new ones. After a dump is restored into a younger cluster,
-- these ids are ahead of it: once the cluster reaches them, old events would show up as new. So all existing events get the id of a
-- transaction that has certainly ended. The counter jumps, so that every later position differs from those of the other cluster, which
-- may have continued after the dump.
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
    'Gives all events the id of a transaction that ended long ago, after they were restored from another cluster. Earlier positions in the'
    ' stream become invalid. Returns how many it changed. Internal.';
REVOKE ALL ON FUNCTION howdah.restamp_events FROM PUBLIC;
