CREATE OR REPLACE FUNCTION howdah.record_events(
    p_ids uuid[],
    p_tokens bigint[],
    p_names text[],
    p_data jsonb[] DEFAULT NULL,
    p_kinds text[] DEFAULT NULL,
    p_ages interval[] DEFAULT NULL,
    p_numbers int[] DEFAULT NULL
) RETURNS TABLE (id uuid, seq int)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY and a hash join, whatever the statistics: a plan made for an empty table must hold for a full one, and
-- all functions must lock rows in the order of their ids, or two batches deadlock.
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
SET enable_nestloop = off
SET plan_cache_mode = force_generic_plan
AS $$
#variable_conflict use_column
DECLARE
    v_ids uuid[];
    v_seqs int[];
    v_job_types varchar[];
BEGIN
    IF EXISTS (SELECT FROM unnest(p_ids, p_names) AS e (id, name) WHERE coalesce(char_length(e.name), 0) NOT BETWEEN 1 AND 100) THEN
        RAISE EXCEPTION 'the name of an event must have 1 to 100 characters' USING ERRCODE = 'JQ001';
    ELSIF EXISTS (SELECT FROM unnest(p_kinds) AS k (kind) WHERE k.kind NOT IN ('event', 'log')) THEN
        RAISE EXCEPTION 'an event that is recorded must be of kind event or log' USING ERRCODE = 'JQ001';
    END IF;
    IF pg_column_size(p_data) > 65536 THEN
        PERFORM howdah.check_size(p_data, 'the data of an event');
    END IF;
    WITH held AS MATERIALIZED (
        SELECT
            j.id, j.token,
            CASE WHEN j.progress_report -> 'told' -> 0 = to_jsonb(j.token) THEN howdah.number_in(j.progress_report -> 'told' -> 1) END AS last_number
        FROM howdah.live AS j WHERE j.id = ANY (p_ids) AND j.status <> 'pending'
        ORDER BY j.id FOR UPDATE
    ), recorded AS MATERIALIZED (
        SELECT
            e.id, e.token, e.name, e.data, coalesce(e.kind, 'event') AS kind, e.place, e.number,
            least(greatest(coalesce(e.age, '0'), '0'), interval '1 hour') AS age,
            row_number() OVER (PARTITION BY e.id ORDER BY e.place) AS rank
        FROM unnest(p_ids, p_tokens, p_names, p_data, p_kinds, p_ages, p_numbers) WITH ORDINALITY
            AS e (id, token, name, data, kind, age, number, place)
        JOIN held ON held.id = e.id AND held.token = e.token
        -- Excludes events that were stored before, and are sent again because the reply was lost.
        WHERE e.number IS NULL OR held.last_number IS NULL OR e.number > held.last_number
    ), by_job AS MATERIALIZED (
        SELECT
            t.id, count(*)::int AS rows, (count(*) FILTER (WHERE t.kind = 'event'))::int AS events, max(t.number) AS number
        FROM recorded AS t GROUP BY t.id ORDER BY t.id
    ), changed AS (
        UPDATE howdah.live AS j SET
            events_count = j.events_count + by_job.events,
            lease_until = howdah.lease_clock() + j.lease,
            own_write = NOT j.own_write,
            progress_report = howdah.with_seq(
                CASE
                    -- An event of a handler proves that the job runs; a log line of some library does not.
                    WHEN by_job.events > 0
                    THEN howdah.merged_progress(j.progress_report, j.token, j.attempts, j.started_at, howdah.clock())
                    ELSE coalesce(j.progress_report, '{}')
                END,
                by_job.rows
            ) || CASE
                WHEN by_job.number IS NULL THEN '{}' ELSE jsonb_build_object('told', jsonb_build_array(j.token, by_job.number))
            END
        FROM by_job
        WHERE j.id = ANY (p_ids) AND j.id = by_job.id
        RETURNING j.id, j.token, j.job_type, j.attempts, howdah.seq_of(j.progress_report) - by_job.rows AS before
    ), kept AS (
        INSERT INTO howdah.events_open (at, job_id, token, seq, attempt, job_type, kind, name, data)
        SELECT
            howdah.clock() - t.age, c.id, c.token, c.before + t.rank, c.attempts, c.job_type, t.kind, t.name, t.data
        FROM recorded AS t JOIN changed AS c ON c.id = t.id
        ORDER BY t.place
        RETURNING stream_no, job_id, seq, job_type
    )
    SELECT array_agg(k.job_id ORDER BY k.stream_no), array_agg(k.seq ORDER BY k.stream_no), array_agg(DISTINCT k.job_type)
    INTO v_ids, v_seqs, v_job_types
    FROM kept AS k;
    PERFORM howdah.notify_watchers(v_job_types);
    RETURN QUERY SELECT r.id, r.seq FROM unnest(v_ids, v_seqs) AS r (id, seq);
END
$$;
COMMENT ON FUNCTION howdah.record_events IS
    'Stores events of held jobs, in order; a job may have several. p_kinds: event (if not given) or log. p_ages: how long ago each'
    ' happened. p_numbers: 1, 2, 3 ... within the claim, so that an event that is sent again after a lost reply is stored once. Returns the'
    ' job and the sequence of each stored event; events of a claim that is over are left out.';
REVOKE ALL ON FUNCTION howdah.record_events FROM PUBLIC;
