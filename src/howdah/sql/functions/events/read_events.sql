-- A position is not a number, because transactions do not commit in the order of any: it is what could be seen (a
-- snapshot), and the highest stream_no among it. What has come since is what that snapshot does not see: transactions that were
-- not there yet (from its xmax on) and those that were under way (its xip), both found by an index. So an event that
-- commits late is new when it does, and a transaction that stays open for hours, and writes no event, holds nothing up.
--
-- The stream_no is for crashes. A transaction that only notified is committed without waiting for the disk: after a crash its id is
-- given to another one, which a snapshot from before seems to see. But stream_no never comes twice: what was seen is on the disk,
-- and so is how far the sequence had got by then.
--
--   SNAPSHOT@stream_no                   everything that it sees, up to stream_no, is done
--   SNAPSHOT@stream_no/SNAPSHOT@stream_no/stream_no      of what came between the two, in the order of stream_no, this much is done
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
    v_n bigint;
    v_after_n bigint;
    v_rest_n bigint;
    v_rest_seen pg_snapshot;
    v_events howdah.event_details[];
    v_xmax xid8;
    v_xip xid8[];
    v_from bigint;
    -- What can be seen is of a transaction that is over, and below this; or of this very one.
    v_end xid8 := pg_snapshot_xmax(pg_current_snapshot());
    v_own xid8 := pg_current_xact_id_if_assigned();
    v_foreign boolean;
BEGIN
    IF p_limit IS NULL OR p_limit < 1 THEN
        RAISE EXCEPTION 'limit is %, and must be at least 1', p_limit USING ERRCODE = 'JQ001';
    END IF;
    BEGIN
        IF coalesce(p_after, '') = '' THEN
            v_n := 0;
        ELSIF p_after LIKE '%/%' THEN
            v_after := split_part(p_after, '/', 1);
            v_rest := split_part(p_after, '/', 2);
            v_n := split_part(p_after, '/', 3)::bigint;
        ELSE
            v_after := p_after;
        END IF;
        -- Positions have an order, and the stream never goes back: what p_after says is done stays done. A crash may set
        -- back the transactions, and the deletion of a job the stream_no, but not one the other.
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
        v_after_n := split_part(v_after, '@', 2)::bigint;
        v_rest_seen := split_part(v_rest, '@', 1)::pg_snapshot;
        v_rest_n := split_part(v_rest, '@', 2)::bigint;
    EXCEPTION WHEN data_exception THEN
        RAISE EXCEPTION '% is not a position of the stream', coalesce(nullif(p_after, ''), p_until) USING ERRCODE = 'JQ001';
    END;
    IF greatest(v_after_n, v_rest_n) > (SELECT c.last_value FROM howdah.event_counter AS c) THEN
        RAISE EXCEPTION 'this position is ahead of the database, which may have been restored'
            USING ERRCODE = 'JQ008', HINT = 'Begin without a position.';
    END IF;
    SELECT v.stream_from INTO v_from FROM howdah.schema_version AS v;
    IF v_after_n BETWEEN 1 AND v_from - 1 OR v_rest_n < v_from THEN
        RAISE EXCEPTION 'this position is of another cluster, from which this database was restored'
            USING ERRCODE = 'JQ008', HINT = 'Begin without a position.';
    END IF;

    IF v_n IS NULL THEN
        -- Few, as a rule: what came since the last look. By their transactions, and put in order here.
        WITH fresh AS MATERIALIZED (
            SELECT e FROM howdah.event_details AS e WHERE e.xid >= v_xmax
            UNION ALL
            SELECT e FROM howdah.event_details AS e WHERE e.xid = ANY (v_xip)
            UNION ALL
            -- By stream_no, and by no index of transactions: hence the coalesce.
            SELECT e FROM howdah.event_details AS e
            WHERE e.stream_no > v_after_n AND coalesce(e.xid < v_xmax, false) AND e.xid <> ALL (v_xip)
        )
        SELECT
            array_agg(page.e ORDER BY (page.e).stream_no),
            (SELECT bool_or((f.e).xid >= v_end AND (f.e).xid IS DISTINCT FROM v_own) FROM fresh AS f)
        INTO v_events, v_foreign FROM (
            SELECT f.e FROM fresh AS f
            WHERE (p_job_types IS NULL OR (f.e).job_type = ANY (p_job_types))
                AND (p_kinds IS NULL OR (f.e).kind = ANY (p_kinds))
                -- Not of this very transaction, say.
                AND pg_visible_in_snapshot((f.e).xid, v_rest_seen) AND (f.e).stream_no <= v_rest_n
            ORDER BY (f.e).stream_no LIMIT p_limit
        ) AS page;
    ELSE
        -- Many, perhaps: page by page along their order.
        SELECT array_agg(page.e ORDER BY (page.e).stream_no) INTO v_events FROM (
            SELECT e FROM howdah.event_details AS e
            WHERE e.stream_no > v_n AND e.stream_no <= v_rest_n AND pg_visible_in_snapshot(e.xid, v_rest_seen)
                AND (e.xid >= v_xmax OR e.xid = ANY (v_xip) OR e.stream_no > v_after_n)
                AND (p_job_types IS NULL OR e.job_type = ANY (p_job_types)) AND (p_kinds IS NULL OR e.kind = ANY (p_kinds))
            ORDER BY e.stream_no LIMIT p_limit
        ) AS page;
        v_foreign := EXISTS (
            SELECT FROM howdah.event_details AS e WHERE e.xid >= v_end AND e.xid IS DISTINCT FROM v_own
        );
    END IF;
    -- Their turn would come when this cluster has got that far: old ones as new.
    IF v_foreign THEN
        RAISE EXCEPTION 'the events were restored from another cluster, whose transactions are ahead of those of this one'
            USING ERRCODE = 'JQ009', HINT = 'Let the owner of this schema run the command migrate, which puts them in order.';
    END IF;
    RETURN QUERY
    SELECT
        concat_ws('/', v_after, v_rest, e.stream_no), e.stream_no, e.at, e.job_id, e.token, e.seq, e.attempt, e.job_type, e.kind, e.name, e.data
    FROM unnest(v_events) AS e;
    IF cardinality(v_events) = p_limit THEN
        "position" := concat_ws('/', v_after, v_rest, v_events[p_limit].stream_no);
        RETURN NEXT;
    ELSIF v_rest <> v_until THEN
        -- The rest of what somebody had begun to read. Who gets less than the limit may take it for all that there is.
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
    'The events that have been committed since p_after, a position that an earlier call gave (the oldest that is kept if not given; see'
    ' stream_position for now), but not after p_until. In order within each job; each row has the position behind it. The last row has no'
    ' job, only the position where to go on: with fewer than p_limit rows before it, there is no more until then. What this very'
    ' transaction has written is not among them, but new once it is committed.';
REVOKE ALL ON FUNCTION howdah.read_events FROM PUBLIC;
