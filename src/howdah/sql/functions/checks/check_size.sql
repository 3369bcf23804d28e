-- Called for what has more than 64 KB, which is the least that the setting can be: what is smaller need not be looked at. A value
-- that comes compressed out of a table is measured as it will be in a worker's memory.
CREATE OR REPLACE FUNCTION howdah.check_size(p_values jsonb[], p_what text) RETURNS void
LANGUAGE plpgsql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_most int := (SELECT s.max_payload_bytes FROM howdah.settings AS s);
    v_size bigint;
BEGIN
    -- Of many small ones, all together may have less than one of them could.
    IF pg_column_size(p_values) <= v_most AND pg_column_compression(p_values) IS NULL THEN
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
    IF v_size > v_most THEN
        RAISE EXCEPTION '% has % bytes; % are allowed', p_what, v_size, v_most USING
            ERRCODE = 'JQ003',
            HINT = 'Store it elsewhere (a table, a bucket) and enqueue a reference to it, or let an operator raise the limit:'
                ' UPDATE howdah.settings SET max_payload_bytes = ...';
    END IF;
END
$$;
COMMENT ON FUNCTION howdah.check_size IS 'Refuses values that are larger than settings.max_payload_bytes with SQLSTATE JQ003.';
REVOKE ALL ON FUNCTION howdah.check_size FROM PUBLIC;
