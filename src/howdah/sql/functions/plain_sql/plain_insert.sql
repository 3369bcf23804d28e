-- Moves rows that were inserted into jobs to their table, all rows of a statement at once. It reads their current state: a trigger of
-- the client, or a function in RETURNING, may have changed or deleted them since.
CREATE OR REPLACE FUNCTION howdah.plain_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- The plan must be id = ANY, whatever the statistics: a plan made for many rows must hold for one, and vice versa.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_ids uuid[] := ARRAY(SELECT a.id FROM added AS a);
    v_existing uuid;
    v_held varchar;
    v_full varchar[];
    v_overs int[];
BEGIN
    -- As in plain_defaults; but a trigger of the client may have replaced the id that this has made.
    IF current_setting('transaction_isolation') <> 'read committed' AND EXISTS (
        SELECT FROM unnest(v_ids) AS i (id)
        WHERE substr(i.id::text, 15, 1) <> '7'
            OR replace(left(i.id::text, 13), '-', '') COLLATE "C" < lpad(to_hex((extract(epoch FROM now()) * 1000)::bigint - 1), 12, '0')
    ) THEN
        RAISE EXCEPTION 'inserting a job with an id of your own needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001',
            HINT = 'A stricter transaction cannot see a job of this id that ended meanwhile. Leave the id that the database makes.';
    END IF;
    SELECT array_agg(room.job_type), array_agg(room.over) INTO v_full, v_overs FROM (
        SELECT a.job_type, howdah.make_room(a.job_type, count(*)::int) AS over
        FROM added AS a JOIN howdah.types AS t ON t.job_type = a.job_type
        WHERE a.status = 'pending' AND coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL
        GROUP BY a.job_type
    ) AS room
    WHERE room.over > 0;
    WITH moved AS (
        DELETE FROM ONLY howdah.jobs AS j WHERE j.id = ANY (v_ids) RETURNING j.*
    )
    INSERT INTO howdah.live (
        id, job_type, priority, status, data, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
        completed_at, attempts, max_attempts, last_error, token, run_at, first_due_at, lease, lease_until, deadline_at, expires_at,
        timeout, retry_policy, flow_key, order_key, line
    )
    SELECT
        m.*, CASE WHEN m.status = 'pending' THEN 0 ELSE 1 END,
        -- Plain clients sort by created_at; but a created_at in the future does not postpone a job.
        least(m.created_at, howdah.clock()), least(m.created_at, howdah.clock()),
        CASE WHEN m.status IN ('claimed', 'running') THEN interval '10 minutes' END,
        CASE WHEN m.status IN ('claimed', 'running') THEN howdah.lease_clock() + interval '10 minutes' END,
        CASE WHEN m.status = 'running' THEN howdah.clock() + howdah.clamp_interval(t.timeout) END,
        howdah.clock() + howdah.clamp_interval(t.expires_in), howdah.clamp_interval(t.timeout),
        t.retry_policy, flow.key, CASE WHEN t.ordered AND m.status IN ('pending', 'claimed', 'running') THEN flow.key END,
        CASE WHEN m.status = 'pending' THEN howdah.line_of(flow.key, howdah.clock()) END
    FROM moved AS m
    LEFT JOIN howdah.types AS t ON t.job_type = m.job_type
    CROSS JOIN LATERAL (SELECT howdah.flow_key_of(t.keyed, t.per, m.data, NULL) AS key) AS flow;
    SELECT j.job_type INTO v_held FROM howdah.live AS j
    WHERE j.id = ANY (v_ids) AND j.flow_key IS NOT NULL AND j.status NOT IN ('pending', 'completed', 'failed', 'cancelled')
    LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'a job of type % cannot be inserted as held: it would run outside of the limits and the order of the type', v_held
            USING ERRCODE = 'JQ005', HINT = 'Insert it as pending, and claim it.';
    END IF;
    -- Checked after the INSERT, because that may have waited for the very transaction that ended a job of this id.
    v_existing := howdah.has_ended(v_ids);
    IF v_existing IS NOT NULL THEN
        RAISE EXCEPTION 'job % already exists', v_existing USING ERRCODE = 'unique_violation', CONSTRAINT = 'jobs_pkey';
    END IF;
    PERFORM howdah.archive_jobs(array_agg(j.id), array_agg(j.status), p_noted => true, p_inserted => true)
    FROM howdah.live AS j WHERE j.id = ANY (v_ids) AND j.status IN ('completed', 'failed', 'cancelled')
    HAVING count(*) > 0;
    PERFORM howdah.drop_oldest(room.job_type, room.over) FROM unnest(v_full, v_overs) AS room (job_type, over);
    PERFORM howdah.notify_workers(array_agg(DISTINCT added.job_type)) FROM added WHERE added.status = 'pending' HAVING count(*) > 0;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.plain_insert IS 'Moves rows that were inserted into jobs to the table of live jobs, or to the archive.';
REVOKE ALL ON FUNCTION howdah.plain_insert FROM PUBLIC;
