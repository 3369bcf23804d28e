CREATE OR REPLACE FUNCTION howdah.with_flow(p_job howdah.live) RETURNS howdah.live
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_type howdah.types;
BEGIN
    SELECT * INTO v_type FROM howdah.types AS t WHERE t.job_type = p_job.job_type;
    p_job.flow_key := howdah.flow_key_of(v_type.keyed, v_type.per, p_job.data, p_job.flow_key);
    p_job.order_key := CASE WHEN v_type.ordered THEN p_job.flow_key END;
    p_job.line := CASE WHEN p_job.status = 'pending' THEN howdah.line_of(p_job.flow_key, p_job.run_at) END;
    RETURN p_job;
END
$$;
COMMENT ON FUNCTION howdah.with_flow IS 'A job with its flow key, its order and its line by the rules of its type. Internal.';
REVOKE ALL ON FUNCTION howdah.with_flow FROM PUBLIC;
