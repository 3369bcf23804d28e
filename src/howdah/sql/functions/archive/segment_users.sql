CREATE OR REPLACE FUNCTION howdah.segment_users(p_relations text[]) RETURNS text
LANGUAGE sql STABLE
SET search_path = pg_catalog, pg_temp
AS $$
    -- PostgreSQL hides state and time of the sessions of other roles.
    SELECT coalesce('in use by ' || string_agg(DISTINCT format('pid %s (%s)', a.pid, concat_ws(
        ', ', coalesce(nullif(a.application_name, ''), 'unnamed'), a.state,
        'since ' || to_char(a.xact_start AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS "UTC"')
    )), ', '), 'in use a moment ago')
    FROM unnest(p_relations) AS r (name)
    JOIN pg_catalog.pg_locks AS l ON l.relation = to_regclass('howdah.' || r.name)
    JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid
    WHERE l.granted AND l.pid <> pg_backend_pid()
        AND l.database = (SELECT d.oid FROM pg_catalog.pg_database AS d WHERE d.datname = current_database())
$$;
COMMENT ON FUNCTION howdah.segment_users IS 'Text: the sessions that hold locks on these tables right now. Internal.';
REVOKE ALL ON FUNCTION howdah.segment_users FROM PUBLIC;
