-- SNAPSHOT@stream_no: what can be seen now, and the highest stream_no among it. This transaction itself, should it have written already,
-- is still under way.
CREATE OR REPLACE FUNCTION howdah.stream_position() RETURNS text
LANGUAGE sql STABLE
RETURN (
    SELECT concat(
        CASE
            WHEN s.own < pg_snapshot_xmax(s.seen) THEN concat_ws(
                ':', pg_snapshot_xmin(s.seen), pg_snapshot_xmax(s.seen), (
                    SELECT string_agg(under_way.xact::text, ',' ORDER BY under_way.xact)
                    FROM (SELECT pg_snapshot_xip(s.seen) UNION SELECT s.own) AS under_way (xact)
                )
            )
            ELSE s.seen::text
        END,
        '@', greatest((
            SELECT e.stream_no FROM howdah.event_details AS e WHERE s.own IS NULL OR e.xid <> s.own ORDER BY e.stream_no DESC LIMIT 1
        ), (SELECT v.stream_from FROM howdah.schema_version AS v), 0)
    )
    FROM (SELECT pg_current_snapshot() AS seen, pg_current_xact_id_if_assigned() AS own) AS s
);
COMMENT ON FUNCTION howdah.stream_position IS 'Where the stream of events is now, for read_events.';
REVOKE ALL ON FUNCTION howdah.stream_position FROM PUBLIC;
