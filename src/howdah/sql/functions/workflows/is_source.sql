CREATE OR REPLACE FUNCTION howdah.is_source(p_source jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
SET search_path = pg_catalog, pg_temp
RETURN coalesce(
    jsonb_typeof(p_source -> 'node') = 'number' AND p_source ->> 'node' ~ '^[1-9][0-9]{0,8}$' AND jsonb_typeof(p_source -> 'path') = 'array'
    AND NOT jsonb_path_exists(p_source, 'strict $.path[*] ? (@.type() != "string" && @.type() != "number")', silent => true), false
);
COMMENT ON FUNCTION howdah.is_source IS 'Whether this is {"node", "path"}: a part of the result of a node. Internal.';
REVOKE ALL ON FUNCTION howdah.is_source FROM PUBLIC;
