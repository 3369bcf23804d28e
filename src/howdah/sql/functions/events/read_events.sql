-- A position is not a number, because transactions do not commit in the order of any number. It is a snapshot (what was visible) and
-- the highest stream_no in it. New events are those that this snapshot does not see: of transactions that began later (from its xmax
-- on) and of those in progress (its xip). An index finds both. So an event that commits late is new when it commits, and a
-- transaction that stays open for hours, and writes no event, delays nothing.
--
-- The stream_no is for crashes. A transaction that only notified commits without waiting for the disk: after a crash another one gets
-- its id, and a snapshot from before seems to see it. But no stream_no is used twice: an event that was read is on the disk, and so
-- is the state of the sequence at that time.
--
--   SNAPSHOT@stream_no                                 everything that it sees, up to stream_no, was read
--   SNAPSHOT@stream_no/SNAPSHOT@stream_no/stream_no    of the events between the two, in the order of stream_no, those up to it were read
CREATE OR REPLACE FUNCTION howdah.read_events(
    p_after text DEFAULT NULL,
    p_until text DEFAULT NULL,
    p_job_types varchar[] DEFAULT NULL,
    p_kinds text[] DEFAULT NULL,
    p_limit int DEFAULT 1000
) RETURNS TABLE (
    "position" text, stream_no bigint, at timestamptz, job_id uuid, token bigint, seq int, attempt int, job_type varchar, kind varchar,
    name varchar, data jsonb
)
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_after text := '1:1:@0';
    v_until text := coalesce(p_until, howdah.stream_position());
    v_rest text;
    v_page_stream_no bigint;
    v_after_stream_no bigint;
    v_rest_stream_no bigint;
    v_rest_snapshot pg_snapshot;
    v_events howdah.event_details[];
    v_xmax xid8;
    v_xip xid8[];
    v_from bigint;
    -- An event can be visible only if its transaction is over, and below this; or if it is of this very transaction.
    v_next_xid xid8 := pg_snapshot_xmax(pg_current_snapshot());
    v_own_xid xid8 := pg_current_xact_id_if_assigned();
    v_foreign boolean;
BEGIN
    IF p_limit IS NULL OR p_limit < 1 THEN
        RAISE EXCEPTION 'limit is %, and must be at least 1', p_limit USING ERRCODE = 'JQ001';
    END IF;
    BEGIN
        IF coalesce(p_after, '') = '' THEN
            v_page_stream_no := 0;
        ELSIF p_after LIKE '%/%' THEN
            v_after := split_part(p_after, '/', 1);
            v_rest := split_part(p_after, '/', 2);
            v_page_stream_no := split_part(p_after, '/', 3)::bigint;
        ELSE
            v_after := p_after;
        END IF;
        -- Positions are ordered, and the stream never goes back: events up to p_after stay read. A crash may set back the transaction
        -- ids, and the deletion of a job the stream_no, but neither sets back both.
        WITH place AS MATERIALIZED (
            SELECT
                p.kind, p.place, split_part(p.place, '@', 2)::bigint AS n, pg_snapshot_xmax(s.seen) AS xmax,
                (SELECT -count(*) FROM pg_snapshot_xip(s.seen)) AS seen_before_xmax
            FROM (VALUES ('until', v_until), ('after', coalesce(v_rest, v_after))) AS p (kind, place)
            CROSS JOIN LATERAL (SELECT split_part(p.place, '@', 1)::pg_snapshot AS seen) AS s
        )
        SELECT CASE
            WHEN u.n <= a.n AND (u.xmax, u.seen_before_xmax) <= (a.xmax, a.seen_before_xmax) THEN a.place ELSE u.place
        END
        INTO v_until
        FROM place AS u CROSS JOIN place AS a WHERE u.kind = 'until' AND a.kind = 'after';
        v_rest := coalesce(v_rest, v_until);
        v_xmax := pg_snapshot_xmax(split_part(v_after, '@', 1)::pg_snapshot);
        v_xip := ARRAY(SELECT pg_snapshot_xip(split_part(v_after, '@', 1)::pg_snapshot));
        v_after_stream_no := split_part(v_after, '@', 2)::bigint;
        v_rest_snapshot := split_part(v_rest, '@', 1)::pg_snapshot;
        v_rest_stream_no := split_part(v_rest, '@', 2)::bigint;
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION '% is not a position of the stream', coalesce(nullif(p_after, ''), p_until) USING ERRCODE = 'JQ001';
    END;
    IF greatest(v_after_stream_no, v_rest_stream_no) > (SELECT c.last_value FROM howdah.event_counter AS c) THEN
        RAISE EXCEPTION 'this position is ahead of the database, which may have been restored'
            USING ERRCODE = 'JQ008', HINT = 'Read again without a position.';
    END IF;
    SELECT v.stream_from INTO v_from FROM howdah.schema_version AS v;
    IF v_after_stream_no BETWEEN 1 AND v_from - 1 OR v_rest_stream_no < v_from THEN
        RAISE EXCEPTION 'this position is from another cluster, from which this database was restored'
            USING ERRCODE = 'JQ008', HINT = 'Read again without a position.';
    END IF;

    IF v_page_stream_no IS NULL THEN
        -- Usually few: the events since the last call. They are found by transaction, and sorted here.
        WITH fresh AS MATERIALIZED (
            SELECT e FROM howdah.event_details AS e WHERE e.xid >= v_xmax
            UNION ALL
            SELECT e FROM howdah.event_details AS e WHERE e.xid = ANY (v_xip)
            UNION ALL
            -- By stream_no, not by the index of transactions: hence the coalesce.
            SELECT e FROM howdah.event_details AS e
            WHERE e.stream_no > v_after_stream_no AND coalesce(e.xid < v_xmax, false) AND e.xid <> ALL (v_xip)
        )
        SELECT
            array_agg(page.e ORDER BY (page.e).stream_no),
            (SELECT bool_or((f.e).xid >= v_next_xid AND (f.e).xid IS DISTINCT FROM v_own_xid) FROM fresh AS f)
        INTO v_events, v_foreign FROM (
            SELECT f.e FROM fresh AS f
            WHERE (p_job_types IS NULL OR (f.e).job_type = ANY (p_job_types))
                AND (p_kinds IS NULL OR (f.e).kind = ANY (p_kinds))
                -- Excludes events of this very transaction, for example.
                AND pg_visible_in_snapshot((f.e).xid, v_rest_snapshot) AND (f.e).stream_no <= v_rest_stream_no
            ORDER BY (f.e).stream_no LIMIT p_limit
        ) AS page;
    ELSE
        -- Possibly many: page by page in the order of stream_no.
        SELECT array_agg(page.e ORDER BY (page.e).stream_no) INTO v_events FROM (
            SELECT e FROM howdah.event_details AS e
            WHERE e.stream_no > v_page_stream_no AND e.stream_no <= v_rest_stream_no AND pg_visible_in_snapshot(e.xid, v_rest_snapshot)
                AND (e.xid >= v_xmax OR e.xid = ANY (v_xip) OR e.stream_no > v_after_stream_no)
                AND (p_job_types IS NULL OR e.job_type = ANY (p_job_types)) AND (p_kinds IS NULL OR e.kind = ANY (p_kinds))
            ORDER BY e.stream_no LIMIT p_limit
        ) AS page;
        v_foreign := EXISTS (
            SELECT FROM howdah.event_details AS e WHERE e.xid >= v_next_xid AND e.xid IS DISTINCT FROM v_own_xid
        );
    END IF;
    -- Such events would show up as new when this cluster reaches their transaction ids.
    IF v_foreign THEN
        RAISE EXCEPTION 'the events were restored from another cluster, whose transactions are ahead of those of this one'
            USING ERRCODE = 'JQ009', HINT = 'Have the owner of this schema run the command migrate, which renumbers them.';
    END IF;
    RETURN QUERY
    SELECT
        concat_ws('/', v_after, v_rest, e.stream_no), e.stream_no, e.at, e.job_id, e.token, e.seq, e.attempt, e.job_type, e.kind, e.name, e.data
    FROM unnest(v_events) AS e;
    IF cardinality(v_events) = p_limit THEN
        "position" := concat_ws('/', v_after, v_rest, v_events[p_limit].stream_no);
        RETURN NEXT;
    ELSIF v_rest <> v_until THEN
        -- The rest of a page that was begun. A caller that gets fewer rows than the limit may conclude that there are no more.
        RETURN QUERY SELECT * FROM howdah.read_events(
            v_rest, v_until, p_job_types, p_kinds, p_limit - coalesce(cardinality(v_events), 0)
        );
    ELSE
        "position" := v_until;
        RETURN NEXT;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.read_events IS
    'The events committed since p_after, a position from an earlier call (without it, since the oldest that is kept; stream_position is'
    ' the current one), but not after p_until. In order within each job; each row has the position after it. The last row has no job,'
    ' only the position from which to continue: if fewer than p_limit rows precede it, there are no more for now. Events that this'
    ' transaction has written are not included; they are new once it is committed.';
REVOKE ALL ON FUNCTION howdah.read_events FROM PUBLIC;
