-- Only functions of PostgreSQL itself: see live_jobs. From one table, so that its rows can be locked. With the time of the statement,
-- because a long transaction sees jobs that were added after it began.
CREATE OR REPLACE VIEW howdah.claimable AS
SELECT
    id,
    job_type,
    priority,
    status,
    data,
    progress,
    current_stage,
    events_count,
    worker_id,
    claimed_at,
    created_at,
    started_at,
    completed_at,
    attempts,
    max_attempts,
    last_error
FROM howdah.live AS j
WHERE status = 'pending' AND attempts < max_attempts AND run_at <= statement_timestamp() AND (expires_at IS NULL OR expires_at > statement_timestamp())
    -- A job of a type that has just got a limit or an order waits until it has its flow key, too.
    AND NOT EXISTS (
        SELECT FROM howdah.types AS t
        WHERE t.job_type = j.job_type AND (t.paused_at IS NOT NULL OR (t.keyed AND j.flow_key IS NULL))
    )
    -- Of an ordered key, the first job that fell due, if none is held. If the order skips, one that waits for its retry does not count.
    AND (order_key IS NULL OR (
        id = (
            SELECT o.id FROM howdah.live AS o
            WHERE o.job_type = j.job_type AND o.flow_key = j.flow_key AND o.status = 'pending' AND o.first_due_at <= statement_timestamp()
                AND (o.run_at <= statement_timestamp() OR NOT EXISTS (
                    SELECT FROM howdah.types AS t WHERE t.job_type = j.job_type AND t.order_skips
                ))
            ORDER BY o.priority DESC, o.first_due_at, o.id
            LIMIT 1
        )
        AND NOT EXISTS (
            SELECT FROM howdah.live AS h
            WHERE h.job_type = j.job_type AND h.flow_key = j.flow_key AND h.status IN ('claimed', 'running')
        )
    ))
    -- Of a key, a type or a group with a limit or a rate, those for which there is room now.
    AND (flow_key IS NULL OR NOT EXISTS (
        SELECT FROM howdah.types AS t
        LEFT JOIN howdah.flow_keys AS k ON k.job_type = t.job_type AND k.flow_key = j.flow_key
        LEFT JOIN howdah.flow_types AS b ON b.job_type = t.job_type
        WHERE t.job_type = j.job_type AND (
            k.paused_at IS NOT NULL
            OR coalesce(k.max_running, t.key_limit, CASE WHEN t.per IS NOT NULL THEN t.declared_limit END) <= (
                SELECT count(*) FROM howdah.live AS h
                WHERE h.job_type = j.job_type AND h.flow_key = j.flow_key AND h.status IN ('claimed', 'running')
            )
            OR coalesce(t.type_limit, CASE WHEN t.per IS NULL THEN t.declared_limit END) <= (
                SELECT count(*) FROM howdah.live AS h
                WHERE h.job_type = j.job_type AND h.flow_key IS NOT NULL AND h.status IN ('claimed', 'running')
            )
            OR EXISTS (
                SELECT FROM howdah.flow_groups AS g
                WHERE g.name = ANY (t.groups) AND g.max_running <= (
                    SELECT count(*) FROM howdah.types AS o JOIN howdah.live AS h ON h.job_type = o.job_type
                    WHERE g.name = ANY (o.groups) AND h.flow_key IS NOT NULL AND h.status IN ('claimed', 'running')
                )
            )
            -- As tokens has it.
            OR EXISTS (
                SELECT FROM (
                    SELECT coalesce(k.rate, t.key_rate, CASE WHEN t.per IS NOT NULL THEN t.declared_rate END), k.full_at
                    UNION ALL
                    SELECT coalesce(t.type_rate, CASE WHEN t.per IS NULL THEN t.declared_rate END), b.full_at
                    UNION ALL
                    SELECT g.rate, g.full_at FROM howdah.flow_groups AS g WHERE g.name = ANY (t.groups)
                ) AS bucket (rate, full_at)
                WHERE least(bucket.full_at, statement_timestamp() + make_interval(secs => (bucket.rate).burst * (bucket.rate).seconds / (bucket.rate).jobs))
                    - make_interval(secs => ((bucket.rate).burst - least(coalesce(j.cost, t.cost, 1), (bucket.rate).burst)) * (bucket.rate).seconds / (bucket.rate).jobs)
                    > statement_timestamp()
            )
        )
    ));
COMMENT ON VIEW howdah.claimable IS
    'The pending jobs that may be claimed now, with the columns of jobs: due, of a type that is not paused, within all limits, and next if the type is ordered.'
    ' For a loop of your own: SELECT ... FROM claimable ... FOR UPDATE SKIP LOCKED, then UPDATE jobs.';
