CREATE OR REPLACE FUNCTION howdah.release_worker(p_worker_id varchar, p_limit int DEFAULT NULL)
RETURNS TABLE (id uuid, status varchar, reason text)
LANGUAGE sql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
    WITH held AS MATERIALIZED (
        SELECT j.id, j.token FROM howdah.live AS j
        WHERE j.worker_id = p_worker_id AND j.status IN ('claimed', 'running')
        -- A locked row is being written right now; the next sweep finds it if it is still held then.
        ORDER BY j.id LIMIT p_limit FOR UPDATE SKIP LOCKED
    )
    SELECT s.id, s.status, s.reason
    FROM (SELECT array_agg(held.id) AS ids, array_agg(held.token) AS tokens FROM held) AS h
    CROSS JOIN LATERAL howdah.end_attempt('worker died', h.ids, h.tokens) AS s
$$;
COMMENT ON FUNCTION howdah.release_worker IS 'Releases the jobs of a dead worker: all, or at most p_limit. Internal.';
REVOKE ALL ON FUNCTION howdah.release_worker FROM PUBLIC;
