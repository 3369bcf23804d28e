-- Rows that were inserted into jobs move to where they belong, all of a statement at once.
CREATE OR REPLACE FUNCTION howdah.plain_insert() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
-- By id = ANY, whatever the planner knows: a plan made for many rows must hold for one, and the other way round.
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_live uuid[];
    v_ended uuid[];
    v_id uuid;
BEGIN
    SELECT
        array_agg(a.id) FILTER (WHERE a.status IN ('pending', 'claimed', 'running')),
        array_agg(a.id) FILTER (WHERE a.status IN ('completed', 'failed', 'cancelled'))
    INTO v_live, v_ended
    FROM added AS a;
    INSERT INTO howdah.live (
        id, job_type, priority, status, data, progress, current_stage, events_count, worker_id, claimed_at, created_at, started_at,
        completed_at, attempts, max_attempts, last_error, token, run_at, first_due_at, lease, lease_until, deadline_at, expires_at,
        timeout, order_key, retry_policy
    )
    SELECT
        a.*, CASE WHEN held.is THEN 1 ELSE 0 END,
        -- A plain client's order is by created_at, but created_at does not put a job off.
        least(a.created_at, howdah.clock()), least(a.created_at, howdah.clock()),
        CASE WHEN held.is THEN interval '10 minutes' END,
        CASE WHEN held.is THEN howdah.lease_clock() + interval '10 minutes' END,
        CASE WHEN a.status = 'running' THEN howdah.clock() + howdah.bounded_span(t.timeout) END,
        howdah.clock() + howdah.bounded_span(t.expires_in), howdah.bounded_span(t.timeout), CASE WHEN t.ordered THEN '' END, t.retry_policy
    FROM added AS a
    CROSS JOIN LATERAL (SELECT a.status IN ('claimed', 'running') AS is) AS held
    LEFT JOIN howdah.types AS t ON t.job_type = a.job_type
    WHERE a.status IN ('pending', 'claimed', 'running');

    -- Not without need: a transaction that has the archive open keeps it from being rotated.
    IF v_ended IS NOT NULL THEN
        WITH ended AS (
            INSERT INTO howdah.archive_open (
                id, job_type, priority, status, data, progress, current_stage, events_count, worker_id, claimed_at, created_at,
                started_at, completed_at, attempts, max_attempts, last_error, token, finished_at, run_at, first_due_at, timeout, crashes,
                interruptions
            )
            SELECT a.*, 1, howdah.clock(), a.created_at, a.created_at, t.timeout, 0, 0
            FROM added AS a
            LEFT JOIN howdah.types AS t ON t.job_type = a.job_type
            WHERE a.status IN ('completed', 'failed', 'cancelled')
            RETURNING job_type, status
        )
        INSERT INTO howdah.archive_counts (day, job_type, status, jobs)
        SELECT (howdah.clock() AT TIME ZONE 'UTC')::date, e.job_type, e.status, count(*) FROM ended AS e GROUP BY e.job_type, e.status;
    END IF;

    DELETE FROM ONLY howdah.jobs AS j WHERE j.id = ANY (v_live || v_ended);

    IF current_setting('jobs.id_was_given', true) = 'yes' THEN
        PERFORM set_config('jobs.id_was_given', '', true);
        -- Not before, because the INSERT may have waited for the very transaction that ended a job of this id.
        v_id := howdah.has_ended(v_live);
        IF v_id IS NULL AND v_ended IS NOT NULL THEN
            SELECT e.id INTO v_id FROM (
                SELECT j.id FROM howdah.live AS j WHERE j.id = ANY (v_ended)
                UNION ALL
                SELECT j.id FROM howdah.archive AS j WHERE j.id = ANY (v_ended) GROUP BY j.id HAVING count(*) > 1
            ) AS e LIMIT 1;
        END IF;
        IF v_id IS NOT NULL THEN
            RAISE EXCEPTION 'there is a job % already', v_id USING ERRCODE = 'unique_violation', CONSTRAINT = 'jobs_pkey';
        END IF;
    END IF;
    PERFORM howdah.wake(array_agg(DISTINCT added.job_type)) FROM added WHERE added.status = 'pending' HAVING count(*) > 0;
    RETURN NULL;
END
$$;
COMMENT ON FUNCTION howdah.plain_insert IS 'Moves what was inserted into jobs to the table of live jobs, or to the archive.';
REVOKE ALL ON FUNCTION howdah.plain_insert FROM PUBLIC;
