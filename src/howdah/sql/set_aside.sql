-- Runs in the schema of a table of jobs that is to be adopted: frees its name and the names of its indexes.
ALTER TABLE howdah.jobs RENAME TO adopted_jobs;
DO $$
DECLARE
    v_index text;
BEGIN
    FOR v_index IN
        SELECT c.relname FROM pg_catalog.pg_index AS i JOIN pg_catalog.pg_class AS c ON c.oid = i.indexrelid
        WHERE i.indrelid = 'howdah.adopted_jobs'::regclass AND c.relname ~ '^(jobs|live)_'
    LOOP
        EXECUTE format('ALTER INDEX howdah.%I RENAME TO %I', v_index, left('adopted_' || v_index, 63));
    END LOOP;
END
$$;
DROP FUNCTION IF EXISTS howdah.claim_job_batch(varchar, varchar[], int);
