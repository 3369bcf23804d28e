CREATE OR REPLACE FUNCTION howdah.enqueue_many(
    p_job_type varchar,
    p_data jsonb[],
    p_keys text[] DEFAULT NULL,
    p_priority int DEFAULT NULL,
    p_run_at timestamptz DEFAULT NULL,
    p_delay interval DEFAULT NULL,
    p_max_attempts int DEFAULT NULL,
    p_timeout interval DEFAULT NULL,
    p_expires_at timestamptz DEFAULT NULL,
    p_retry_policy jsonb DEFAULT NULL,
    p_meta jsonb DEFAULT NULL,
    p_return_ids boolean DEFAULT false,
    p_expires_in interval DEFAULT NULL
) RETURNS TABLE (enqueued bigint, ids uuid[])
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
#variable_conflict use_column
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_options(p_max_attempts, p_delay, p_timeout, p_retry_policy, p_expires_in);
    WITH wanted AS MATERIALIZED (
        SELECT howdah.new_id() AS id, item.data, item.key, item.place
        FROM unnest(p_data, p_keys) WITH ORDINALITY AS item (data, key, place)
    ), added AS (
        INSERT INTO howdah.live (
            id, job_type, data, priority, run_at, first_due_at, created_at, max_attempts, key, order_key,
            timeout, expires_at, retry_policy, meta
        )
        SELECT
            wanted.id, p_job_type, coalesce(wanted.data, '{}'),
            coalesce(p_priority, t.priority, 100),
            due.at, due.at, howdah.clock(),
            coalesce(p_max_attempts, t.max_attempts, 3),
            wanted.key, CASE WHEN t.ordered THEN '' END,
            coalesce(p_timeout, t.timeout),
            coalesce(p_expires_at, due.at + coalesce(p_expires_in, t.expires_in)),
            coalesce(p_retry_policy, t.retry_policy),
            p_meta
        FROM wanted
        CROSS JOIN (SELECT coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock()) AS at) AS due
        LEFT JOIN howdah.types AS t ON t.job_type = p_job_type
        -- By key, because two bulks that meet each other's keys in different orders would deadlock.
        ORDER BY wanted.key, wanted.place
        ON CONFLICT DO NOTHING
        RETURNING id
    )
    SELECT
        count(added.id),
        CASE WHEN p_return_ids THEN array_agg(added.id ORDER BY wanted.place) FILTER (WHERE added.id IS NOT NULL) END
    INTO enqueued, ids
    FROM wanted LEFT JOIN added USING (id);
    IF enqueued > 0 AND coalesce(p_run_at, howdah.clock() + p_delay, howdah.clock()) <= howdah.clock() + interval '2 seconds' THEN
        PERFORM howdah.wake(ARRAY[p_job_type]);
    END IF;
    RETURN NEXT;
END
$$;
COMMENT ON FUNCTION howdah.enqueue_many IS
    'Adds a job for each element of p_data, claimed in that order. An element whose key a live job of the type has'
    ' already is left out: enqueued counts what was added, and ids, if asked for, lists it.';
REVOKE ALL ON FUNCTION howdah.enqueue_many FROM PUBLIC;
