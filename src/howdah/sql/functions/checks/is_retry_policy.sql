-- Only by comparison, as in number_in, so that an invalid policy raises no error.
CREATE OR REPLACE FUNCTION howdah.is_retry_policy(p_policy jsonb) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN coalesce(
    jsonb_typeof(p_policy) = 'object'
    AND CASE p_policy ->> 'kind' WHEN 'none' THEN true WHEN 'fixed' THEN p_policy ? 'delay' WHEN 'linear' THEN p_policy ? 'delay'
        WHEN 'exponential' THEN p_policy ? 'delay'
        WHEN 'delays' THEN jsonb_typeof(p_policy -> 'delays') = 'array' AND p_policy -> 'delays' <> '[]' END
    AND NOT EXISTS (
        SELECT FROM jsonb_array_elements(CASE jsonb_typeof(p_policy -> 'delays') WHEN 'array' THEN p_policy -> 'delays' ELSE '[]' END) AS d (delay)
        WHERE d.delay NOT BETWEEN '0' AND '1000000000'
    )
    AND coalesce(p_policy -> 'delay' BETWEEN '0' AND '1000000000', true)
    AND coalesce(p_policy -> 'max' BETWEEN '0' AND '1000000000', true)
    AND coalesce(p_policy -> 'factor' BETWEEN '1' AND '1000', true)
    AND coalesce(p_policy -> 'jitter' BETWEEN '0' AND '1', true),
    false
);
COMMENT ON FUNCTION howdah.is_retry_policy IS 'Whether a JSON value is a retry policy that retry_delay supports. Internal.';
REVOKE ALL ON FUNCTION howdah.is_retry_policy FROM PUBLIC;
