-- A plain client may have added such a key in a transaction that is still open. That key is passed by, and the others are added one by one;
-- after three waits, the remaining ones are left to the next claim.
CREATE OR REPLACE FUNCTION howdah.add_keys(p_job_type varchar, p_keys text[]) RETURNS void
LANGUAGE plpgsql VOLATILE
SET search_path = pg_catalog, pg_temp
SET lock_timeout = '50ms'
AS $$
DECLARE
    v_missing text[] := ARRAY(
        SELECT k.flow_key FROM unnest(p_keys) AS k (flow_key)
        WHERE NOT EXISTS (SELECT FROM howdah.flow_keys AS f WHERE f.job_type = p_job_type AND f.flow_key = k.flow_key)
        -- In one order: two claims that add the same keys would deadlock otherwise.
        ORDER BY k.flow_key
    );
    v_key text;
    v_waits int := 1;
BEGIN
    IF v_missing <> '{}' THEN
        BEGIN
            INSERT INTO howdah.flow_keys (job_type, flow_key) SELECT p_job_type, k.flow_key FROM unnest(v_missing) AS k (flow_key)
            ON CONFLICT DO NOTHING;
        EXCEPTION
            WHEN lock_not_available THEN
                -- In any order, so that three such keys do not hold up the same others each time.
                FOR v_key IN SELECT k.flow_key FROM unnest(v_missing) AS k (flow_key) WHERE cardinality(v_missing) > 1 ORDER BY random() LOOP
                    EXIT WHEN v_waits = 3;
                    BEGIN
                        INSERT INTO howdah.flow_keys (job_type, flow_key) VALUES (p_job_type, v_key) ON CONFLICT DO NOTHING;
                    EXCEPTION
                        WHEN lock_not_available THEN
                            v_waits := v_waits + 1;
                    END;
                END LOOP;
        END;
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.add_keys IS 'Adds the rows of keys that have none: they are the locks under which the held jobs of a key are counted. Internal.';
REVOKE ALL ON FUNCTION howdah.add_keys FROM PUBLIC;
