-- Other keys are allowed: a newer worker may measure more.
CREATE OR REPLACE FUNCTION howdah.check_throughput(p_throughput jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_throughput) <> 'object' OR pg_column_size(p_throughput) > 1048576 OR EXISTS (
        SELECT FROM jsonb_each(CASE WHEN jsonb_typeof(p_throughput) = 'object' THEN p_throughput ELSE '{}' END) AS p (job_type, measured)
        WHERE NOT coalesce(p.measured -> 'per_second' BETWEEN '0' AND '1000000000000', false)
            OR NOT coalesce(p.measured -> 'run' BETWEEN '0' AND '1000000000000', true)
            OR NOT coalesce(p.measured -> 'wait' BETWEEN '0' AND '1000000000000', true)
    ) THEN
        RAISE EXCEPTION 'throughput must map each job type to {"per_second": ..., "run": ..., "wait": ...}, with numbers that are not negative'
            USING ERRCODE = 'JQ001', HINT = 'See the column workers.throughput.';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_throughput IS 'Rejects an invalid measurement of a worker with SQLSTATE JQ001.';
REVOKE ALL ON FUNCTION howdah.check_throughput FROM PUBLIC;
