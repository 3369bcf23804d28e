-- SNAPSHOT@stream_no: what is visible now, and the highest stream_no in it. If this transaction has written already, it counts as in
-- progress.
CREATE OR REPLACE FUNCTION howdah.stream_position() RETURNS text
LANGUAGE sql STABLE
RETURN (
    SELECT concat(
        CASE
            WHEN s.own < pg_snapshot_xmax(s.seen) THEN concat_ws(
                ':', pg_snapshot_xmin(s.seen), pg_snapshot_xmax(s.seen), (
                    SELECT string_agg(in_progress.xid::text, ',' ORDER BY in_progress.xid)
                    FROM (SELECT pg_snapshot_xip(s.seen) UNION SELECT s.own) AS in_progress (xid)
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
COMMENT ON FUNCTION howdah.stream_position IS 'The current position of the stream of events, for read_events.';
REVOKE ALL ON FUNCTION howdah.stream_position FROM PUBLIC;
