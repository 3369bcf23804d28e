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
    ELSIF (p_group IS NULL) = (p_job_type IS NULL) OR (p_group IS NOT NULL AND (p_flow_key IS NOT NULL OR p_each_key))
        OR (p_flow_key IS NOT NULL AND p_each_key)
    THEN
        RAISE EXCEPTION 'a limit is for a group, a type, one key of a type, or each key of a type' USING
            ERRCODE = 'JQ001', HINT = 'Give p_group alone, or p_job_type, with p_flow_key or p_each_key if you like.';
    ELSIF p_group = '' OR char_length(p_group) > 200 THEN
        RAISE EXCEPTION 'a name of a group has 1 to 200 characters' USING ERRCODE = 'JQ001';
    END IF;
    IF p_group IS NOT NULL AND p_running IS NULL THEN
        DELETE FROM howdah.flow_groups AS g WHERE g.name = p_group;
    ELSIF p_group IS NOT NULL THEN
        INSERT INTO howdah.flow_groups (name, max_running) VALUES (p_group, p_running)
        ON CONFLICT (name) DO UPDATE SET max_running = excluded.max_running;
    ELSE
        PERFORM howdah.check_job_type(p_job_type);
        IF p_flow_key IS NOT NULL THEN
            PERFORM howdah.check_keys(ARRAY[p_flow_key], 'flow key');
            INSERT INTO howdah.flow_keys (job_type, flow_key, max_running) VALUES (p_job_type, p_flow_key, p_running)
            ON CONFLICT (job_type, flow_key) DO UPDATE SET max_running = excluded.max_running;
        ELSE
            INSERT INTO howdah.types AS t (job_type, type_limit, key_limit)
            VALUES (p_job_type, CASE WHEN NOT p_each_key THEN p_running END, CASE WHEN p_each_key THEN p_running END)
            ON CONFLICT (job_type) DO UPDATE SET
                type_limit = CASE WHEN p_each_key THEN t.type_limit ELSE excluded.type_limit END,
                key_limit = CASE WHEN p_each_key THEN excluded.key_limit ELSE t.key_limit END;
        END IF;
        IF p_running IS NOT NULL THEN
            -- Jobs that wait already are subject to it, too: they get keys.
            UPDATE howdah.types AS t SET keyed = true, settling = '{}' WHERE t.job_type = p_job_type AND NOT t.keyed;
            INSERT INTO howdah.types (job_type, keyed, settling) VALUES (p_job_type, true, '{}') ON CONFLICT (job_type) DO NOTHING;
            PERFORM howdah.apply_flow(p_job_type, p_declares => true);
        END IF;
    END IF;
    -- There may be room for more.
    PERFORM howdah.notify_workers(array_agg(t.job_type)) FROM howdah.types AS t
    WHERE t.job_type = p_job_type OR p_group = ANY (t.groups) HAVING count(*) > 0;
END
$$;
COMMENT ON FUNCTION howdah.set_limit IS
    'Sets how many jobs run at once over all workers: of a group (p_group), of a type (p_job_type), of one key of the type (p_flow_key), or of'
    ' each of its keys (p_each_key). It applies instead of the limit that the handler declares. p_running NULL: resets it. Jobs that run'
    ' already go on.';
REVOKE ALL ON FUNCTION howdah.set_limit FROM PUBLIC;
