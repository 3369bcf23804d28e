-- Asked beforehand where a refusal would end the caller's transaction. What get.sql needs.
SELECT
    pg_catalog.has_table_privilege('howdah.job_details'::pg_catalog.regclass, 'SELECT')
    AND pg_catalog.has_function_privilege('howdah.clock()'::pg_catalog.regprocedure, 'EXECUTE') AS may
