-- A key that another session has locked is passed by: no rest for a head that waits is longer than a minute.
CREATE OR REPLACE FUNCTION howdah.end_rests(p_job_types varchar[], p_flow_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE howdah.flow_keys AS k SET rests_until = howdah.clock()
    WHERE k.ctid = ANY (ARRAY(
        SELECT f.ctid
        FROM (SELECT DISTINCT c.job_type, c.flow_key FROM unnest(p_job_types, p_flow_keys) AS c (job_type, flow_key)) AS changed
        JOIN howdah.flow_keys AS f ON f.job_type = changed.job_type AND f.flow_key = changed.flow_key
        WHERE f.rests_until > howdah.clock() AND f.paused_at IS NULL
        FOR UPDATE OF f SKIP LOCKED
    ));
END
$$;
COMMENT ON FUNCTION howdah.end_rests IS 'Ends the rest of keys of which a job has changed, so that claims look at them again. Internal.';
REVOKE ALL ON FUNCTION howdah.end_rests FROM PUBLIC;
