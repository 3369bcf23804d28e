-- Of a larger key, each batch would have to sort all jobs to find its own: in the order of ids it reads a window of them.
CREATE OR REPLACE FUNCTION howdah.live_of_key(p_job_types varchar[], p_flow_key text, p_most int) RETURNS uuid[]
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET enable_bitmapscan = off
SET jit = off
AS $$
DECLARE
    v_job_types varchar[] := p_job_types;
    v_ids uuid[];
BEGIN
    IF p_flow_key IS NULL THEN
        RETURN NULL;
    ELSIF v_job_types IS NULL THEN
        -- From one type with such jobs to the next.
        WITH RECURSIVE walk AS (
            SELECT ''::varchar AS job_type
            UNION ALL
            SELECT least(
                (
                    SELECT j.job_type FROM howdah.live AS j
                    WHERE j.flow_key IS NOT NULL AND j.status = 'pending' AND j.job_type > walk.job_type
                    ORDER BY j.job_type LIMIT 1
                ),
                (
                    SELECT j.job_type FROM howdah.live AS j
                    WHERE j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running') AND j.job_type > walk.job_type
                    ORDER BY j.job_type LIMIT 1
                )
            )
            FROM walk WHERE walk.job_type IS NOT NULL
        )
        SELECT array_agg(walk.job_type) INTO v_job_types FROM walk;
    END IF;
    v_ids := ARRAY(
        SELECT of_key.id
        FROM (SELECT DISTINCT n.job_type FROM unnest(v_job_types) AS n (job_type)) AS named
        CROSS JOIN LATERAL (
            SELECT j.id FROM howdah.live AS j
            WHERE j.flow_key IS NOT NULL AND j.status = 'pending' AND j.job_type = named.job_type AND j.flow_key = p_flow_key
            UNION ALL
            SELECT j.id FROM howdah.live AS j
            WHERE j.flow_key IS NOT NULL AND j.status IN ('claimed', 'running')
                AND j.job_type = named.job_type AND j.flow_key = p_flow_key
        ) AS of_key
        LIMIT p_most + 1
    );
    RETURN CASE WHEN cardinality(v_ids) <= p_most THEN v_ids END;
END
$$;
COMMENT ON FUNCTION howdah.live_of_key IS
    'The live jobs of a flow key, of some types or of all; NULL if they are more than p_most, or no key is given. Internal.';
REVOKE ALL ON FUNCTION howdah.live_of_key FROM PUBLIC;
