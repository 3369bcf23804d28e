CREATE OR REPLACE FUNCTION howdah.may_see_keys() RETURNS boolean
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- The role of the session: inside of a function that runs as the owner, current_user is the owner.
    SELECT has_table_privilege(
        CASE WHEN current_setting('role') = 'none' THEN session_user ELSE current_setting('role')::name END, 'howdah.live'::regclass, 'SELECT'
    )
$$;
COMMENT ON FUNCTION howdah.may_see_keys IS 'Whether the views show the login the keys and errors of jobs, and do not redact them. Internal.';
REVOKE ALL ON FUNCTION howdah.may_see_keys FROM PUBLIC;
