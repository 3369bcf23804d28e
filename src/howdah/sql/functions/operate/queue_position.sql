CREATE OR REPLACE FUNCTION howdah.queue_position(p_id uuid)
RETURNS TABLE (ahead bigint, exact boolean, per_second float8, starts_at timestamptz, because text)
LANGUAGE plpgsql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_job howdah.live;
    v_from timestamptz;
    v_workers bigint;
    v_free bigint;
BEGIN
    SELECT * INTO v_job FROM howdah.live AS j WHERE j.id = p_id AND j.status = 'pending';
    IF NOT FOUND THEN
        RETURN;
    END IF;
    IF v_job.has_steps THEN
        because := howdah.wait_in_words(v_job.id, v_job.token);
        IF because IS NOT NULL THEN
            ahead := 0;
            exact := false;
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    v_from := greatest(v_job.run_at, howdah.clock());
    -- Up to a limit the jobs are counted one by one; an exact number beyond it would cost more than it is worth.
    IF v_job.flow_key IS NULL THEN
        SELECT count(*) INTO ahead FROM (
            SELECT FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = v_job.job_type
                AND j.priority > v_job.priority AND j.run_at <= v_from
            UNION ALL
            SELECT FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.attempts < j.max_attempts AND j.job_type = v_job.job_type
                AND j.priority = v_job.priority AND j.run_at <= v_from AND (j.run_at, j.id) < (v_job.run_at, v_job.id)
            LIMIT 100001
        ) AS before;
    ELSE
        -- Those of its key, in the order in which they first fell due: a job that backs off keeps its place, and held jobs come first.
        SELECT count(*), greatest(v_from, max(before.run_at)) INTO ahead, v_from FROM (
            SELECT j.run_at FROM howdah.live AS j
            WHERE j.job_type = v_job.job_type AND j.flow_key = v_job.flow_key AND j.status = 'pending'
                AND j.priority > v_job.priority AND j.first_due_at <= v_from
            UNION ALL
            SELECT j.run_at FROM howdah.live AS j
            WHERE j.job_type = v_job.job_type AND j.flow_key = v_job.flow_key AND j.status = 'pending'
                AND j.priority = v_job.priority AND (j.first_due_at, j.id) < (v_job.first_due_at, v_job.id)
            UNION ALL
            SELECT j.run_at FROM howdah.live AS j
            WHERE j.job_type = v_job.job_type AND j.flow_key = v_job.flow_key AND j.status IN ('claimed', 'running')
            LIMIT 100001
        ) AS before;
    END IF;
    exact := ahead <= 100000;
    ahead := least(ahead, 100000);
    SELECT
        count(*), sum(p.per_second) FILTER (WHERE p.per_second >= 0),
        CASE WHEN v_job.flow_key IS NULL THEN sum(greatest(w.capacity::bigint - w.running, 0)) END
    INTO v_workers, per_second, v_free
    FROM howdah.workers AS w
    CROSS JOIN LATERAL (SELECT howdah.number_in(w.throughput -> v_job.job_type -> 'per_second') AS per_second) AS m
    -- A number too small for a float8 cannot be cast.
    CROSS JOIN LATERAL (
        SELECT CASE WHEN m.per_second > 0 THEN greatest(m.per_second, 1e-300)::float8 WHEN m.per_second = 0 THEN 0 END AS per_second
    ) AS p
    WHERE w.heartbeat_at >= howdah.lease_clock() - w.lease AND v_job.job_type = ANY (w.job_types);
    because := coalesce(CASE WHEN v_job.flow_key IS NOT NULL THEN howdah.flow_obstacle(v_job) END, CASE
        WHEN v_from = 'infinity' THEN 'it waits for other jobs'
        WHEN EXISTS (SELECT FROM howdah.types AS t WHERE t.job_type = v_job.job_type AND t.paused_at IS NOT NULL)
        THEN 'its type is paused'
        WHEN v_workers = 0 THEN 'no live worker handles this type'
    END);
    IF because IS NULL THEN
        because := CASE
            WHEN ahead > 0 AND coalesce(per_second, 0) = 0 THEN 'no worker has measured the throughput of this type yet'
            WHEN NOT exact THEN 'there are too many jobs before it to count'
        END;
        IF because IS NULL THEN
            -- Free slots start that many jobs at once; only the others wait for running jobs to end.
            -- A time that was chosen may be the last that there is: nothing can be added to it.
            starts_at := greatest(v_from, least(v_from, timestamptz '290000-01-01') + make_interval(secs => least(
                CASE WHEN ahead = 0 THEN 0 ELSE greatest(ahead - coalesce(v_free, 0), 0) / greatest(per_second, 1e-9) END, 3e9
            )));
        END IF;
        IF v_job.order_key IS NOT NULL AND v_job.run_at <= howdah.clock() THEN
            because := coalesce(howdah.order_obstacle(v_job), because);
        END IF;
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.queue_position IS
    'The place of a pending job in its lane: how many jobs of its type come before it (exact is false if there are more), how many'
    ' the live workers run per second, and when it will start at this rate, free slots considered. because: what it waits for, or why its'
    ' start is unknown.'
    ' No row if the job is not pending.';
REVOKE ALL ON FUNCTION howdah.queue_position FROM PUBLIC;
