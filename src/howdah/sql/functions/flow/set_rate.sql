CREATE OR REPLACE FUNCTION howdah.set_rate(
    p_job_type varchar DEFAULT NULL,
    p_flow_key text DEFAULT NULL,
    p_group text DEFAULT NULL,
    p_jobs int DEFAULT NULL,
    p_seconds float8 DEFAULT 1,
    p_burst int DEFAULT NULL,
    p_each_key boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
DECLARE
    v_rate howdah.rate := howdah.check_rate(p_jobs, p_seconds, p_burst);
    v_before howdah.types;
    v_former howdah.rate;
BEGIN
    PERFORM howdah.check_limited(p_job_type, p_flow_key, p_group, p_each_key);
    SELECT * INTO v_before FROM howdah.types AS t WHERE t.job_type = p_job_type FOR NO KEY UPDATE;
    IF p_group IS NOT NULL THEN
        INSERT INTO howdah.flow_groups (name, rate) VALUES (p_group, v_rate)
        ON CONFLICT (name) DO UPDATE SET rate = excluded.rate, full_at = howdah.rescaled(flow_groups.rate, excluded.rate, flow_groups.full_at);
    ELSIF p_flow_key IS NOT NULL THEN
        SELECT (k.rate).* INTO v_former FROM howdah.flow_keys AS k WHERE k.job_type = p_job_type AND k.flow_key = p_flow_key FOR UPDATE;
        INSERT INTO howdah.flow_keys (job_type, flow_key, rate) VALUES (p_job_type, p_flow_key, v_rate)
        ON CONFLICT (job_type, flow_key) DO UPDATE SET rate = excluded.rate;
        PERFORM howdah.apply_rate(v_before, p_job_type, p_flow_key, v_former);
    ELSE
        INSERT INTO howdah.types AS t (job_type, type_rate, key_rate)
        VALUES (p_job_type, CASE WHEN NOT p_each_key THEN v_rate END, CASE WHEN p_each_key THEN v_rate END)
        ON CONFLICT (job_type) DO UPDATE SET
            type_rate = CASE WHEN p_each_key THEN t.type_rate ELSE excluded.type_rate END,
            key_rate = CASE WHEN p_each_key THEN excluded.key_rate ELSE t.key_rate END;
        PERFORM howdah.apply_rate(v_before, p_job_type);
    END IF;
    IF p_job_type IS NOT NULL AND v_rate IS NOT NULL THEN
        UPDATE howdah.types AS t SET rated = true WHERE t.job_type = p_job_type AND NOT t.rated;
    END IF;
    PERFORM howdah.apply_limit(p_job_type, p_group, v_rate IS NOT NULL);
END
$$;
COMMENT ON FUNCTION howdah.set_rate IS
    'Sets how often jobs start over all workers: p_jobs in p_seconds, and p_burst of them at once (p_jobs if not given). For a group, a type, one'
    ' key or each key, as in set_limit. It applies instead of the rate that the handler declares. p_jobs NULL: resets it.';
REVOKE ALL ON FUNCTION howdah.set_rate FROM PUBLIC;
