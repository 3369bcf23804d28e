-- The state of the schema in which Howdah is, or will be, installed; and whether the search_path contains a plain table of jobs.
WITH plain AS (
    SELECT c.oid, c.relowner, n.nspname
    FROM pg_catalog.pg_class AS c
    JOIN pg_catalog.pg_namespace AS n ON n.oid OPERATOR(pg_catalog.=) c.relnamespace
    WHERE c.oid OPERATOR(pg_catalog.=) ANY (ARRAY[pg_catalog.to_regclass('howdah.jobs'), pg_catalog.to_regclass('jobs')])
        AND c.relkind OPERATOR(pg_catalog.=) ANY ('{r,p}')
        -- Not the tables of Howdah, here or in another schema.
        AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_class AS l
            WHERE l.relnamespace OPERATOR(pg_catalog.=) n.oid AND l.relname OPERATOR(pg_catalog.=) 'live'
        )
    ORDER BY c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('howdah.jobs') DESC NULLS LAST
    LIMIT 1
), owner AS (
    SELECT r.oid AS id, r.oid::pg_catalog.regrole::pg_catalog.text AS name, r.rolsuper AS is_superuser
    FROM pg_catalog.pg_namespace AS n
    JOIN pg_catalog.pg_database AS d ON d.datname OPERATOR(pg_catalog.=) pg_catalog.current_database()
    -- The schema public belongs to pg_database_owner.
    JOIN pg_catalog.pg_roles AS r ON r.oid OPERATOR(pg_catalog.=) CASE
        WHEN n.nspowner OPERATOR(pg_catalog.=) pg_catalog.to_regrole('pg_database_owner') THEN d.datdba ELSE n.nspowner
    END
    WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
)
SELECT
    pg_catalog.to_regclass('howdah.schema_version') IS NOT NULL AS installed,
    -- Before 0.1.0 some tables and columns were missing, or had other names.
    pg_catalog.to_regclass('howdah.live') IS NOT NULL AND (
        pg_catalog.to_regclass('howdah.segments') IS NULL OR pg_catalog.to_regclass('howdah.workers') IS NOT NULL AND NOT EXISTS (
            SELECT FROM pg_catalog.pg_attribute AS a
            WHERE a.attrelid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('howdah.workers') AND NOT a.attisdropped
                AND a.attname OPERATOR(pg_catalog.=) 'incarnation'
        )
    ) AS is_development,
    EXISTS (
        SELECT FROM pg_catalog.pg_namespace AS n
        WHERE n.oid OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
            AND n.nspowner OPERATOR(pg_catalog.=) pg_catalog.to_regrole('howdah_owner')
    ) AS has_roles,
    -- After a restore without data there is no row with the version.
    CASE WHEN pg_catalog.to_regclass('howdah.schema_version') IS NOT NULL THEN
        coalesce((
            pg_catalog.regexp_match(
                pg_catalog.col_description(pg_catalog.to_regclass('howdah.schema_version')::pg_catalog.oid, 2), 'version ([0-9]+)$'
            )
        )[1]::int, 1)
    END AS marked_version,
    -- Function bodies contain the name of their schema: after a rename, the old one.
    (
        SELECT (pg_catalog.regexp_match(p.prosrc, '"([^"]+)"\.live'))[1] FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah') AND p.proname OPERATOR(pg_catalog.=) 'enqueue'
        ORDER BY p.oid LIMIT 1
    ) AS functions_name,
    -- A few functions stand for all: PUBLIC may execute each until that is revoked, and a restore may have lost the REVOKE.
    EXISTS (
        SELECT FROM pg_catalog.pg_proc AS p
        WHERE p.pronamespace OPERATOR(pg_catalog.=) pg_catalog.to_regnamespace('howdah')
            AND p.proname OPERATOR(pg_catalog.=) ANY ('{declare_type,prune,end_attempt}')
            AND EXISTS (
                SELECT FROM pg_catalog.aclexplode(coalesce(p.proacl, pg_catalog.acldefault('f', p.proowner))) AS a
                WHERE a.grantee OPERATOR(pg_catalog.=) 0::pg_catalog.oid
            )
    ) AS is_public,
    (
        SELECT pg_catalog.pg_has_role(c.relowner, 'MEMBER') FROM pg_catalog.pg_class AS c
        WHERE c.oid OPERATOR(pg_catalog.=) pg_catalog.to_regclass('howdah.schema_version')
    ) AS may_mend,
    -- The owner of a schema can drop and replace what is in it. A superuser can do that anywhere.
    (
        SELECT owner.name FROM owner WHERE NOT owner.is_superuser AND NOT pg_catalog.pg_has_role(owner.id, 'MEMBER')
    ) AS strange_owner,
    -- A superuser is a member of every role. But the owner of the schema could replace what a superuser installs in it.
    (
        SELECT owner.name FROM owner JOIN pg_catalog.pg_roles AS login ON login.rolname OPERATOR(pg_catalog.=) current_user
        WHERE login.rolsuper AND NOT owner.is_superuser
    ) AS lesser_owner,
    (SELECT nspname FROM plain) AS plain_jobs_in,
    (SELECT relowner::pg_catalog.regrole::pg_catalog.text FROM plain) AS plain_jobs_of,
    (SELECT pg_catalog.pg_has_role(relowner, 'USAGE') FROM plain) AS may_adopt,
    pg_catalog.quote_ident(current_user) AS login,
    -- Only types of PostgreSQL itself: values of any other type would be converted by functions of its owner, with the rights of the
    -- login that migrates.
    (
        SELECT pg_catalog.count(*) FROM plain
        JOIN pg_catalog.pg_attribute AS a ON a.attrelid OPERATOR(pg_catalog.=) plain.oid
            AND a.attnum OPERATOR(pg_catalog.>) 0 AND NOT a.attisdropped
        WHERE (a.attname OPERATOR(pg_catalog.=) 'id' AND a.atttypid OPERATOR(pg_catalog.=) 'pg_catalog.uuid'::pg_catalog.regtype)
            OR (a.attname OPERATOR(pg_catalog.=) ANY ('{job_type,status,current_stage,worker_id,last_error}')
                AND a.atttypid OPERATOR(pg_catalog.=) ANY ('{pg_catalog.varchar,pg_catalog.text}'::pg_catalog.regtype[]))
            OR (a.attname OPERATOR(pg_catalog.=) ANY ('{priority,progress,events_count,attempts,max_attempts}')
                AND a.atttypid OPERATOR(pg_catalog.=) ANY ('{pg_catalog.int2,pg_catalog.int4,pg_catalog.int8}'::pg_catalog.regtype[]))
            OR (a.attname OPERATOR(pg_catalog.=) 'data'
                AND a.atttypid OPERATOR(pg_catalog.=) ANY ('{pg_catalog.jsonb,pg_catalog.json}'::pg_catalog.regtype[]))
            OR (a.attname OPERATOR(pg_catalog.=) ANY ('{claimed_at,created_at,started_at,completed_at}')
                AND a.atttypid OPERATOR(pg_catalog.=) ANY ('{pg_catalog.timestamptz,pg_catalog.timestamp}'::pg_catalog.regtype[]))
    ) OPERATOR(pg_catalog.=) 16 AS adoptable
