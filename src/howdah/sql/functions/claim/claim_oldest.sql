-- Prevents starvation. Here a lane is a type and a priority. The lanes are found by hopping from one priority of a type to the next,
-- and are merged by waiting time alone.
CREATE OR REPLACE FUNCTION howdah.claim_oldest(
    p_job_types varchar[],
    p_limits int[],
    p_wanted int,
    p_include_crashed boolean
) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_lanes howdah.lane_head[];
BEGIN
    WITH RECURSIVE lane AS (
        SELECT named.job_type, named.max_jobs, 2147483648 AS priority, NULL::timestamptz AS run_at, NULL::uuid AS id
        FROM unnest(p_job_types, p_limits) AS named (job_type, max_jobs)
        UNION ALL
        SELECT lane.job_type, lane.max_jobs, head.priority, head.run_at, head.id
        FROM lane
        CROSS JOIN LATERAL (
            SELECT j.priority::bigint AS priority, j.run_at, j.id FROM howdah.live AS j
            WHERE j.status = 'pending' AND j.attempts < j.max_attempts
                AND j.job_type = lane.job_type AND j.priority < lane.priority
            ORDER BY j.priority DESC, j.run_at, j.id
            LIMIT 1
        ) AS head
    )
    SELECT array_agg(ROW(lane.job_type, lane.priority::int, lane.run_at, lane.id, false, lane.max_jobs)::howdah.lane_head) INTO v_lanes
    FROM lane WHERE lane.run_at <= howdah.clock();
    RETURN howdah.claim_level(v_lanes, p_wanted, p_include_crashed);
END
$$;
COMMENT ON FUNCTION howdah.claim_oldest IS
    'Locks the jobs that have waited longest, whatever their priority. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_oldest FROM PUBLIC;
