-- Everything that a statement of ours might call by a name without a schema, once more, in public: by the same arguments as
-- PostgreSQL's own, and by those that fit the columns of jobs better (varchar, where PostgreSQL knows text only). A caller of one
-- of these is caught: in a table, which a rollback empties, and by a sequence, which none does.
CREATE TABLE public.caught (name text, role text);
CREATE SEQUENCE public.catches;
GRANT INSERT, SELECT ON public.caught TO PUBLIC;
GRANT USAGE ON public.catches TO PUBLIC;
CREATE FUNCTION public.catch_it(p_name text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.nextval('public.catches');
    INSERT INTO public.caught VALUES (p_name, current_user);
    RAISE WARNING 'caught: % calls %', current_user, p_name;
    RETURN true;
END
$$;

DO $do$
DECLARE
    v_name text;
    v_statement text;
BEGIN
    FOR v_name, v_statement IN
        WITH type AS (
            SELECT t.oid FROM pg_catalog.pg_type AS t
            WHERE t.typnamespace = 'pg_catalog'::regnamespace AND t.typname = ANY (ARRAY[
                'bool', 'int2', 'int4', 'int8', 'float4', 'float8', 'numeric', 'text', 'varchar', 'name', 'char', 'uuid', 'json',
                'jsonb', 'timestamptz', 'timestamp', 'date', 'interval', 'oid', 'regclass', 'regtype', 'regnamespace', 'regprocedure',
                'regrole', 'xid', 'xid8', 'pg_snapshot', 'pg_lsn', 'tid', 'anyelement', 'anyarray', 'anynonarray', 'anycompatible',
                'anycompatiblearray', 'inet', '_text', '_varchar', '_int4', '_int8', '_uuid', '_jsonb', '_timestamptz', '_bool',
                '_float8', '_interval', 'void', 'record'
            ])
        ), own AS (
            SELECT
                p.oid, p.proname, p.proretset, p.prorettype, p.proargmodes IS NOT NULL AS has_modes,
                pg_catalog.pg_get_function_arguments(p.oid) AS arguments, pg_catalog.pg_get_function_result(p.oid) AS result
            FROM pg_catalog.pg_proc AS p
            WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.prorettype IN (SELECT oid FROM type)
                AND p.provariadic = 0 AND NOT EXISTS (SELECT FROM unnest(p.proargtypes) AS a WHERE a NOT IN (SELECT oid FROM type))
        ), pair AS (
            SELECT o.oprname, l.name AS l, r.name AS r
            FROM (VALUES ('='), ('<>'), ('<'), ('>'), ('<='), ('>='), ('||'), ('~'), ('~~'), ('->'), ('->>'), ('@>')) AS o (oprname)
            CROSS JOIN (VALUES ('varchar'), ('text'), ('name')) AS l (name)
            CROSS JOIN (VALUES ('varchar'), ('text'), ('name')) AS r (name)
        )
        SELECT
            format('function %s(%s)', proname, arguments),
            format(
                'CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM public.catch_it(%L); RETURN %s; END$f$',
                proname, arguments, result, format('%s(%s)', proname, arguments),
                CASE WHEN proretset OR has_modes OR prorettype = 'void'::regtype THEN '' ELSE 'NULL' END
            )
        FROM own
        UNION ALL
        SELECT
            format('function %s(varchar)', n),
            format(
                'CREATE FUNCTION public.%I(varchar) RETURNS text LANGUAGE plpgsql AS $f$BEGIN PERFORM public.catch_it(%L); RETURN NULL; END$f$',
                n, format('%s(varchar)', n)
            )
        FROM unnest(ARRAY['to_jsonb', 'concat', 'quote_ident', 'lower', 'md5', 'length', 'hashtext', 'format']) AS n
        UNION ALL
        SELECT
            format('operator %s %s %s', pg_catalog.format_type(o.oprleft, NULL), o.oprname, pg_catalog.format_type(o.oprright, NULL)),
            format(
                'CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM public.catch_it(%L); RETURN NULL; END$f$;'
                ' CREATE OPERATOR public.%s (FUNCTION = public.%I, %s RIGHTARG = %s)',
                'of_operator_' || o.oid, concat_ws(', ', nullif(o.oprleft, 0)::regtype, o.oprright::regtype), o.oprresult::regtype,
                concat_ws(' ', nullif(o.oprleft, 0)::regtype, o.oprname, o.oprright::regtype),
                o.oprname, 'of_operator_' || o.oid, 'LEFTARG = ' || nullif(o.oprleft, 0)::regtype || ',', o.oprright::regtype
            )
        FROM pg_catalog.pg_operator AS o
        WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprright IN (SELECT oid FROM type) AND o.oprresult IN (SELECT oid FROM type)
            AND (o.oprleft = 0 OR o.oprleft IN (SELECT oid FROM type))
        UNION ALL
        SELECT
            format('operator %s %s %s', l, oprname, r),
            format(
                'CREATE FUNCTION public.%I(%s, %s) RETURNS %s LANGUAGE plpgsql AS $f$BEGIN PERFORM public.catch_it(%L); RETURN NULL; END$f$;'
                ' CREATE OPERATOR public.%s (FUNCTION = public.%I, LEFTARG = %s, RIGHTARG = %s)',
                format('better_%s_%s_%s', oprname, l, r), l, r, CASE oprname WHEN '||' THEN 'text' ELSE 'boolean' END,
                format('%s %s %s', l, oprname, r), oprname, format('better_%s_%s_%s', oprname, l, r), l, r
            )
        FROM pair
        UNION ALL
        SELECT
            format('type %s', n),
            format('CREATE DOMAIN public.%I AS pg_catalog.%I CHECK (public.catch_it(%L))', n, n, 'type ' || n)
        FROM unnest(ARRAY['uuid', 'text', 'jsonb', 'timestamptz', 'float8', 'regclass', 'regtype', 'name', 'oid']) AS n
        UNION ALL
        SELECT
            format('relation %s', n),
            format('CREATE VIEW public.%I AS SELECT * FROM pg_catalog.%I WHERE public.catch_it(%L)', n, n, 'relation ' || n)
        FROM unnest(ARRAY[
            'pg_class', 'pg_namespace', 'pg_proc', 'pg_locks', 'pg_roles', 'pg_inherits', 'pg_stat_activity', 'pg_settings', 'pg_database',
            'pg_index', 'pg_attribute', 'pg_trigger', 'pg_constraint', 'pg_depend', 'pg_rewrite'
        ]) AS n
    LOOP
        BEGIN
            EXECUTE v_statement;
        EXCEPTION WHEN OTHERS THEN
            -- What no role can plant is no danger; how many are there is asserted.
            NULL;
        END;
    END LOOP;
END
$do$;

-- Aggregates, by a state that catches: those over rows, and over what columns of ours hold.
DO $do$
DECLARE
    v_name text;
    v_type text;
BEGIN
    FOR v_name, v_type IN
        SELECT n, t FROM unnest(ARRAY['count', 'sum', 'min', 'max', 'bool_or', 'array_agg', 'string_agg', 'jsonb_agg']) AS n
        CROSS JOIN unnest(ARRAY['int4', 'int8', 'numeric', 'varchar', 'pg_catalog.timestamptz', 'pg_catalog.uuid', 'pg_catalog.jsonb', 'bool', 'pg_catalog.text']) AS t
    LOOP
        EXECUTE format(
            'CREATE FUNCTION public.%I(p_state bigint, p_next %s) RETURNS bigint LANGUAGE plpgsql AS $f$BEGIN PERFORM public.catch_it(%L); RETURN 0; END$f$;'
            ' CREATE AGGREGATE public.%I(%s) (SFUNC = public.%I, STYPE = bigint)',
            format('step_%s_%s', v_name, v_type), v_type, format('%s(%s)', v_name, v_type), v_name, v_type, format('step_%s_%s', v_name, v_type)
        );
    END LOOP;
    CREATE FUNCTION public.step_count(p_state bigint) RETURNS bigint LANGUAGE plpgsql
    AS $f$BEGIN PERFORM public.catch_it('count(*)'); RETURN 0; END$f$;
    CREATE AGGREGATE public.count(*) (SFUNC = public.step_count, STYPE = bigint);
END
$do$;

GRANT SELECT ON ALL TABLES IN SCHEMA public TO PUBLIC;
