-- The position of the stream before the first event of a workflow, which is written when it starts: read_events goes on from there page
-- by page. No job of it can have an event of an earlier transaction. Empty, the oldest event: that one is not kept any more.
SELECT coalesce((
    SELECT CASE WHEN e.stream_no OPERATOR(pg_catalog.>) v.stream_from THEN
        pg_catalog.concat(e.xid, ':', e.xid, ':@', e.stream_no OPERATOR(pg_catalog.-) 1, '/', howdah.stream_position(), '/', e.stream_no OPERATOR(pg_catalog.-) 1)
    END
    FROM howdah.event_details AS e CROSS JOIN howdah.schema_version AS v
    WHERE e.job_id OPERATOR(pg_catalog.=) %(id)s AND e.seq OPERATOR(pg_catalog.=) 1
    ORDER BY e.stream_no LIMIT 1
), '') AS beginning
