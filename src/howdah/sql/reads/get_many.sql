SELECT
    *,
    coalesce(stalls_at < howdah.clock(), false) AS stalled,
    (SELECT NOT has_table_privilege('howdah.live'::regclass, 'SELECT')) AS is_redacted
FROM howdah.job_details
WHERE id = ANY (%(ids)s::uuid[])
