CREATE OR REPLACE FUNCTION howdah.set_limit(
    p_job_type varchar DEFAULT NULL,
    p_flow_key text DEFAULT NULL,
    p_group text DEFAULT NULL,
    p_running int DEFAULT NULL,
    p_each_key boolean DEFAULT false
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    IF p_running < 0 THEN
        RAISE EXCEPTION 'the limit is %, and must not be negative', p_running USING ERRCODE = 'JQ001';
    END IF;
    PERFORM howdah.check_limited(p_job_type, p_flow_key, p_group, p_each_key);
    IF p_group IS NOT NULL THEN
        INSERT INTO howdah.flow_groups (name, max_running) VALUES (p_group, p_running)
        ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running;
    ELSIF p_flow_key IS NOT NULL THEN
        INSERT INTO howdah.flow_keys (job_type, flow_key, max_running) VALUES (p_job_type, p_flow_key, p_running)
        ON CONFLICT (job_type, flow_key) DO UPDATE SET max_running = excluded.max_running;
    ELSE
        INSERT INTO howdah.types AS t (job_type, type_limit, key_limit)
        VALUES (p_job_type, CASE WHEN NOT p_each_key THEN p_running END, CASE WHEN p_each_key THEN p_running END)
        ON CONFLICT (job_type) DO UPDATE SET
            type_limit = CASE WHEN p_each_key THEN t.type_limit ELSE excluded.type_limit END,
            key_limit = CASE WHEN p_each_key THEN excluded.key_limit ELSE t.key_limit END;
    END IF;
    -- Keys that might run no jobs at all: see claim_keys.
    UPDATE howdah.flow_keys AS k SET rests_until = howdah.clock()
    WHERE p_group IS NULL AND k.job_type = p_job_type AND (p_flow_key IS NULL OR k.flow_key = p_flow_key)
        AND k.rests_until = 'infinity' AND k.paused_at IS NULL;
    PERFORM howdah.apply_limit(p_job_type, p_group, p_running IS NOT NULL);
END
$$;
COMMENT ON FUNCTION howdah.set_limit IS
    'Sets how many jobs run at once over all workers: of a group (p_group), of a type (p_job_type), of one key of the type (p_flow_key), or of'
    ' each of its keys (p_each_key). It applies instead of the limit that the handler declares. p_running NULL: resets it. Jobs that run'
    ' already go on.';
REVOKE ALL ON FUNCTION howdah.set_limit FROM PUBLIC;
