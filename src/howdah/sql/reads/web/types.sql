SELECT
    t.job_type, t.paused_at, t.paused_because, t.ordered, t.priority, t.max_attempts, t.timeout, t.expires_in, t.declared_at,
    howdah.clock() AS now
FROM howdah.types AS t
ORDER BY t.job_type
