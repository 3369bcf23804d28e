CREATE OR REPLACE FUNCTION howdah.release_held_back(p_limit int DEFAULT 1000) RETURNS int
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET enable_seqscan = off
SET jit = off
AS $$
DECLARE
    v_ids uuid[];
    v_tokens bigint[];
    v_due uuid[];
BEGIN
    SELECT array_agg(s.job_id), array_agg(s.token) INTO v_ids, v_tokens FROM (
        SELECT h.job_id, h.token FROM howdah.steps AS h WHERE h.held_back LIMIT p_limit FOR UPDATE SKIP LOCKED
    ) AS s;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;
    v_due := ARRAY(SELECT howdah.make_due(v_ids, v_tokens));
    UPDATE howdah.steps AS s SET held_back = NULL
    WHERE s.held_back AND s.job_id = ANY (v_ids) AND (s.job_id = ANY (v_due) OR NOT EXISTS (
        SELECT FROM howdah.live AS j WHERE j.id = s.job_id AND j.token = s.token AND j.status NOT IN ('claimed', 'running')
    ));
    RETURN cardinality(v_due);
END
$$;
COMMENT ON FUNCTION howdah.release_held_back IS
    'Makes jobs due that another transaction had locked when their signal came. Returns how many. Part of recover. Internal.';
REVOKE ALL ON FUNCTION howdah.release_held_back FROM PUBLIC;
