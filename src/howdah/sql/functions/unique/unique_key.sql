CREATE OR REPLACE FUNCTION howdah.unique_key(p_data jsonb, p_by jsonb) RETURNS text
LANGUAGE sql STABLE PARALLEL SAFE
RETURN encode(sha256(convert_to(
    CASE
        WHEN p_by = '"arguments"' THEN 'arguments ' || p_data::text
        ELSE coalesce(
            (
                SELECT jsonb_object_agg(p.path, coalesce(p_data #> string_to_array(p.path, '.'), 'null'))::text
                FROM jsonb_array_elements_text(p_by) AS p (path)
            ),
            'type'
        )
    END, 'UTF8'
)), 'hex');
COMMENT ON FUNCTION howdah.unique_key IS
    'A hash of the arguments of a job: of all of them ("arguments"), or of those at the given paths. Internal.';
REVOKE ALL ON FUNCTION howdah.unique_key FROM PUBLIC;
