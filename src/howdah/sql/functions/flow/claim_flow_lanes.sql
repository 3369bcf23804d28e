CREATE OR REPLACE FUNCTION howdah.claim_flow_lanes(
    p_lanes howdah.lane_head[], p_wanted int, p_picked uuid[], p_include_crashed boolean
) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_found uuid[] := '{}';
    v_lanes int := cardinality(p_lanes);
    v_lane howdah.lane_head;
    v_left int := p_wanted;
BEGIN
    -- In a random order: each type gets its share of a small claim in the long run.
    FOR v_lane IN SELECT * FROM unnest(p_lanes) AS l ORDER BY random() LOOP
        EXIT WHEN v_left < 1;
        v_found := v_found || howdah.claim_flow(
            v_lane.job_type, v_lane.priority,
            least((v_left - 1) / v_lanes + 1, v_lane.max_jobs - (
                SELECT count(*) FROM howdah.live AS j WHERE j.id = ANY (p_picked) AND j.job_type = v_lane.job_type
            ))::int,
            p_picked || v_found, p_include_crashed
        );
        v_lanes := v_lanes - 1;
        v_left := p_wanted - cardinality(v_found);
    END LOOP;
    RETURN v_found;
END
$$;
COMMENT ON FUNCTION howdah.claim_flow_lanes IS 'claim_flow for several types of one priority. Part of claim.';
REVOKE ALL ON FUNCTION howdah.claim_flow_lanes FROM PUBLIC;
