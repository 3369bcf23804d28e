-- Checks the rights that get.sql needs. For a caller whose transaction a refusal would abort.
SELECT
    pg_catalog.has_table_privilege('howdah.job_details'::pg_catalog.regclass, 'SELECT')
    AND pg_catalog.has_function_privilege('howdah.clock()'::pg_catalog.regprocedure, 'EXECUTE') AS may
