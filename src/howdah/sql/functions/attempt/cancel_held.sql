CREATE OR REPLACE FUNCTION howdah.cancel_held(
    p_ids uuid[],
    p_tokens bigint[],
    p_reasons text[] DEFAULT NULL
) RETURNS TABLE (id uuid, status varchar)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    RETURN QUERY SELECT s.id, s.status FROM howdah.end_attempt('cancelled', p_ids, p_tokens, p_reasons) AS s;
END
$$;
COMMENT ON FUNCTION howdah.cancel_held IS 'Ends held jobs as cancelled, on behalf of their own worker. Returns the jobs that it changed.';
REVOKE ALL ON FUNCTION howdah.cancel_held FROM PUBLIC;
