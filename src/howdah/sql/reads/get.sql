-- is_redacted, as in the other reads, but asked by the row: for one, that is quicker than a subquery.
SELECT
    *,
    coalesce(stalls_at < howdah.clock(), false) AS stalled,
    NOT has_table_privilege('howdah.live'::regclass, 'SELECT') AS is_redacted
FROM howdah.job_details
WHERE id = %(id)s
