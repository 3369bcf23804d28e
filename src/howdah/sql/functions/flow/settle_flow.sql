-- Before a claim looks at the keys: jobs that have become due get ready, and a type whose rules have changed is brought up to date.
CREATE OR REPLACE FUNCTION howdah.settle_flow(p_job_types varchar[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_due uuid[];
    v_settled float8[] := nullif(current_setting('jobqueue.settled', true), '');
BEGIN
    -- A transaction of any login, left open, keeps a type from being settled. To look at a large backlog for nothing takes a tenth of the
    -- time at most.
    IF (v_settled[2] > 0.02 AND extract(epoch FROM clock_timestamp()) - v_settled[1] BETWEEN 0 AND v_settled[2] * 9) IS NOT TRUE THEN
        PERFORM howdah.apply_flow(t.job_type) FROM howdah.types AS t WHERE t.job_type = ANY (p_job_types) AND t.settling IS NOT NULL;
    END IF;
    v_due := ARRAY(
        SELECT due.id FROM unnest(p_job_types) AS named (job_type)
        CROSS JOIN LATERAL (
            SELECT j.id FROM howdah.live AS j
            WHERE j.line = 'later' AND j.status = 'pending' AND j.job_type = named.job_type AND j.run_at <= howdah.clock()
            ORDER BY j.run_at
            LIMIT 1000
            FOR UPDATE SKIP LOCKED
        ) AS due
    );
    IF v_due <> '{}' THEN
        UPDATE howdah.live AS j SET line = 'ready', own_write = NOT j.own_write WHERE j.id = ANY (v_due);
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.settle_flow IS 'Lets jobs with flow keys that have become due take part in claims. Part of claim.';
REVOKE ALL ON FUNCTION howdah.settle_flow FROM PUBLIC;
