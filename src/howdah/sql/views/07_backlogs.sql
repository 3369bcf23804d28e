-- Only functions of PostgreSQL itself: see live_jobs.
CREATE OR REPLACE VIEW howdah.backlogs AS
SELECT
    t.job_type, coalesce(t.max_pending, t.declared_max_pending) AS max_pending,
    coalesce(t.when_full, t.declared_when_full, 'raise') AS when_full, num_nonnulls(t.max_pending, t.when_full) > 0 AS by_operator,
    (
        SELECT count(*) FROM howdah.live AS j
        WHERE j.job_type = t.job_type AND j.status = 'pending' AND j.attempts < j.max_attempts
    ) AS pending
FROM howdah.types AS t
WHERE coalesce(t.max_pending, t.declared_max_pending) IS NOT NULL;
COMMENT ON VIEW howdah.backlogs IS
    'The types with a bound on the jobs that wait: how many may, how many do, and what enqueueing does when it is reached. by_operator: not by'
    ' the handler.';
