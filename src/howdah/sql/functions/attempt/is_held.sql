CREATE OR REPLACE FUNCTION howdah.is_held(p_id uuid, p_token bigint) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT EXISTS (SELECT FROM howdah.live AS j WHERE j.id = p_id AND j.token = p_token AND j.status <> 'pending')
$$;
COMMENT ON FUNCTION howdah.is_held IS 'Whether a claim is still valid: the job is held, and its token is this one.';
REVOKE ALL ON FUNCTION howdah.is_held FROM PUBLIC;
