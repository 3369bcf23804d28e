CREATE OR REPLACE FUNCTION howdah.enqueue(
    p_job_type varchar,
    p_data jsonb DEFAULT '{}',
    p_priority int DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_key text DEFAULT NULL,
    p_id uuid DEFAULT NULL,
    p_first_try boolean DEFAULT false,
    p_timeout interval DEFAULT NULL,
    p_expires_at timestamptz DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_parent_id uuid DEFAULT NULL,
    p_workflow_id uuid DEFAULT NULL,
    p_expires_in interval DEFAULT NULL,
    p_alone boolean DEFAULT false
) RETURNS TABLE (
    id uuid, created boolean, priority int, run_at timestamptz, created_at timestamptz, max_attempts int,
    timeout interval, expires_at timestamptz, retry_policy jsonb
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
DECLARE
    v_new_id uuid := coalesce(p_id, howdah.new_id());
    -- Whether no job has this id yet. A caller is believed if the id itself says that it was made in this very minute: an ended
    -- job could be hidden behind a new one otherwise. To look for it in any case would cost every call more than it is worth.
    v_is_new boolean := p_id IS NULL OR (
        p_first_try
        AND abs(('x' || replace(left(p_id::text, 13), '-', ''))::bit(48)::bigint - date_part('epoch', clock_timestamp()) * 1000) < 60000
    );
    v_id uuid;
    v_created boolean;
    v_ended boolean;
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, p_delay, p_timeout, p_retry_policy, p_expires_in);
    IF p_id IS NOT NULL AND NOT p_first_try AND current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'an id of one''s own needs a READ COMMITTED transaction' USING
            ERRCODE = 'JQ001', HINT = 'In a stricter one, a job of this id that has ended meanwhile cannot be seen.';
    END IF;
    LOOP
        IF p_key IS NULL AND v_is_new THEN
            -- Nothing can be in the way, and to be ready for it would be paid for in WAL.
            INSERT INTO howdah.live AS j (
                id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key, order_key,
                timeout, expires_at, retry_policy, meta, parent_id, workflow_id
            )
            SELECT
                v_new_id, p_job_type, coalesce(p_data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(),
                job.max_attempts, p_key, job.order_key, job.timeout, job.expires_at, job.retry_policy,
                p_meta, p_parent_id, p_workflow_id
            FROM howdah.filled_in(
                p_job_type, p_priority, p_run_at, p_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
            ) AS job
            RETURNING
                j.id, true, j.priority, j.run_at, j.created_at, j.max_attempts, j.timeout, j.expires_at, j.retry_policy
            INTO id, created, priority, run_at, created_at, max_attempts, timeout, expires_at, retry_policy;
        ELSE
            INSERT INTO howdah.live AS j (
                id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key, order_key,
                timeout, expires_at, retry_policy, meta, parent_id, workflow_id
            )
            SELECT
                v_new_id, p_job_type, coalesce(p_data, '{}'), job.priority, job.run_at, job.run_at, howdah.clock(),
                job.max_attempts, p_key, job.order_key, job.timeout, job.expires_at, job.retry_policy,
                p_meta, p_parent_id, p_workflow_id
            FROM howdah.filled_in(
                p_job_type, p_priority, p_run_at, p_delay, p_max_attempts, p_timeout, p_expires_at, p_expires_in, p_retry_policy
            ) AS job
            ON CONFLICT DO NOTHING
            RETURNING
                j.id, true, j.priority, j.run_at, j.created_at, j.max_attempts, j.timeout, j.expires_at, j.retry_policy
            INTO id, created, priority, run_at, created_at, max_attempts, timeout, expires_at, retry_policy;
        END IF;

        IF FOUND AND v_is_new THEN
            -- Later ones are waited for by those who sleep: they look at what is due next.
            IF run_at <= howdah.clock() + interval '2 seconds' AND howdah.somebody_sleeps(p_job_type) THEN
                PERFORM howdah.wake(ARRAY[p_job_type], p_alone);
            END IF;
            RETURN NEXT;
            RETURN;
        ELSIF FOUND THEN
            -- A repeated call must find its job among the ended ones too. This look comes after the
            -- INSERT, because that may have waited for the very transaction that ended the job.
            v_id := p_id;
            v_ended := EXISTS (
                SELECT FROM howdah.archive AS a WHERE a.id = p_id
            );
            DELETE FROM howdah.live AS j WHERE j.id = p_id AND v_ended;
            v_created := NOT v_ended;
        ELSE
            v_id := coalesce(
                (SELECT j.id FROM howdah.live AS j WHERE j.id = p_id),
                (SELECT j.id FROM howdah.live AS j WHERE j.job_type = p_job_type AND j.key = p_key)
            );
            v_created := false;
        END IF;
        -- None means that the job in the way ended meanwhile: its place is free now.
        EXIT WHEN v_id IS NOT NULL;
    END LOOP;

    IF v_created AND run_at <= howdah.clock() + interval '2 seconds' THEN
        PERFORM howdah.wake(ARRAY[p_job_type], p_alone);
    END IF;
    RETURN QUERY
    SELECT
        d.id, v_created, d.priority, d.run_at, d.created_at, d.max_attempts, d.timeout, d.expires_at, d.retry_policy
    FROM howdah.job_details AS d WHERE d.id = v_id;
END
$$;
COMMENT ON FUNCTION howdah.enqueue IS
    'Adds a job. A live job of the same type and key, or a job of the same id, is returned instead, with created = false.'
    ' p_first_try promises that p_id was made for this very call, and spares the look for a job that has it already; it is believed of a UUIDv7'
    ' that is less than a minute off.'
    ' p_alone promises that this call is a transaction by itself, which spares a notification while another one is on its way.';
REVOKE ALL ON FUNCTION howdah.enqueue FROM PUBLIC;
