CREATE OR REPLACE FUNCTION howdah.check_inputs(p_inputs jsonb) RETURNS void
LANGUAGE plpgsql IMMUTABLE
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    IF jsonb_typeof(p_inputs) = 'array' AND (
        SELECT coalesce(bool_and(coalesce(
            jsonb_typeof(i.input -> 'parameter') = 'string' AND jsonb_typeof(i.input -> 'list') = 'boolean' AND jsonb_typeof(i.input -> 'sources') = 'array'
            AND (SELECT bool_and(howdah.is_source(s.source)) FROM jsonb_path_query(i.input, 'strict $.sources[*]', silent => true) AS s (source)), false
        )), true) FROM jsonb_path_query(p_inputs, 'strict $[*]', silent => true) AS i (input)
    ) THEN
        RETURN;
    END IF;
    RAISE EXCEPTION 'the inputs of a node are a list of {"parameter", "list", "sources": [{"node", "path"}]}' USING ERRCODE = 'JQ001';
END
$$;
COMMENT ON FUNCTION howdah.check_inputs IS 'Refuses inputs of a node that node_inputs could not read. Internal.';
REVOKE ALL ON FUNCTION howdah.check_inputs FROM PUBLIC;
