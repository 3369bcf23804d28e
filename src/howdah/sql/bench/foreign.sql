-- Some types of jobs that are not the bench's. From the view, which every version has.
SELECT DISTINCT j.job_type FROM howdah.jobs AS j WHERE j.job_type OPERATOR(pg_catalog.<>) ALL (%(ours)s) ORDER BY j.job_type LIMIT 4
