CREATE OR REPLACE FUNCTION howdah.apply_limit(p_job_type varchar, p_group text, p_is_set boolean) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF p_job_type IS NOT NULL AND p_is_set THEN
        -- Jobs that wait already are subject to it, too: they get keys.
        INSERT INTO howdah.types AS t (job_type, keyed, settling) VALUES (p_job_type, true, '{}')
        ON CONFLICT (job_type) DO UPDATE SET keyed = true, settling = '{}';
        PERFORM howdah.apply_flow(p_job_type, p_declares => true);
    ELSIF p_is_set THEN
        UPDATE howdah.types AS t SET settling = '{}' WHERE p_group = ANY (t.groups);
    END IF;
    -- Both its limit and its rate were reset.
    DELETE FROM howdah.flow_groups AS g WHERE g.name = p_group AND g.max_running IS NULL AND g.rate IS NULL;
    -- There may be room for more.
    PERFORM howdah.notify_workers(array_agg(t.job_type)) FROM howdah.types AS t
    WHERE t.job_type = p_job_type OR p_group = ANY (t.groups) HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION howdah.apply_limit IS 'Makes a limit or a rate that was set or reset apply to jobs that wait already, and wakes workers. Internal.';
REVOKE ALL ON FUNCTION howdah.apply_limit FROM PUBLIC;
