-- As get_many.sql, for jobs that have not ended: the other view would look into each day of the archive.
SELECT
    *,
    coalesce(stalls_at < howdah.clock(), false) AS stalled,
    (SELECT NOT has_table_privilege('howdah.live'::regclass, 'SELECT')) AS is_redacted
FROM howdah.live_jobs
WHERE id = ANY (%(ids)s::uuid[])
