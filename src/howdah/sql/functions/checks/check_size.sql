-- Called for values above 64 KB, the minimum of the setting: smaller ones need no check. A compressed value from a table is measured by
-- its size in the memory of a worker.
CREATE OR REPLACE FUNCTION howdah.check_size(p_values jsonb[], p_what text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_max_bytes int := (SELECT s.max_payload_bytes FROM howdah.settings AS s);
    v_size bigint;
BEGIN
    -- Fast path: if all values together are below the limit, so is each of them.
    IF pg_column_size(p_values) <= v_max_bytes AND pg_column_compression(p_values) IS NULL THEN
        RETURN;
    END IF;
    SELECT max(
        CASE
            WHEN pg_column_size(v.value) < 65536 THEN 0
            WHEN pg_column_compression(v.value) IS NULL THEN pg_column_size(v.value)
            ELSE octet_length(v.value::text)
        END
    )
    INTO v_size FROM unnest(p_values) AS v (value);
    IF v_size > v_max_bytes THEN
        RAISE EXCEPTION '% has % bytes; % are allowed', p_what, v_size, v_max_bytes USING
            ERRCODE = 'JQ003',
            HINT = 'Store it elsewhere (a table, a bucket) and enqueue a reference to it, or have an operator raise the limit:'
                ' UPDATE howdah.settings SET max_payload_bytes = ...';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_size IS 'Rejects values that are larger than settings.max_payload_bytes with SQLSTATE JQ003.';
REVOKE ALL ON FUNCTION howdah.check_size FROM PUBLIC;
