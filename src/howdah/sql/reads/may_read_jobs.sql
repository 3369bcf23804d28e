-- Asked beforehand where a refusal would end the caller's transaction. What get.sql needs.
SELECT
    has_table_privilege('howdah.job_details'::regclass, 'SELECT')
    AND has_function_privilege('howdah.clock()'::regprocedure, 'EXECUTE') AS may
