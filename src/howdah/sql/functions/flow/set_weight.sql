CREATE OR REPLACE FUNCTION howdah.set_weight(p_job_type varchar, p_flow_key text, p_weight int DEFAULT NULL) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '2s'
AS $$
BEGIN
    PERFORM howdah.check_job_type(p_job_type);
    PERFORM howdah.check_keys(ARRAY[p_flow_key], 'flow key');
    IF p_weight NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'the weight is %, and must be from 1 to 1000', p_weight USING ERRCODE = 'JQ001';
    END IF;
    INSERT INTO howdah.flow_keys (job_type, flow_key, weight) VALUES (p_job_type, p_flow_key, p_weight)
    ON CONFLICT (job_type, flow_key) DO UPDATE SET weight = excluded.weight;
END
$$;
COMMENT ON FUNCTION howdah.set_weight IS
    'Sets how many jobs a key gives when it is its turn, for each one that other keys give. p_weight NULL: one, as they do.';
REVOKE ALL ON FUNCTION howdah.set_weight FROM PUBLIC;
