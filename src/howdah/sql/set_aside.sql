-- Run in the schema of a table of jobs that is to be adopted: its name is needed for the view.
ALTER TABLE howdah.jobs RENAME TO adopted_jobs;
DROP FUNCTION IF EXISTS howdah.claim_job_batch(varchar, varchar[], int);
