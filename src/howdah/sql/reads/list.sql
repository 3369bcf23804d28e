-- One window of the jobs, newest first. What an index finds (id, status) bounds the window; what none
-- does is looked for inside it.
SELECT
    *,
    coalesce(stalls_at < howdah.clock(), false) AS stalled,
    (SELECT NOT has_table_privilege('howdah.live'::regclass, 'SELECT')) AS is_redacted
FROM (
    SELECT * FROM howdah.job_details
    WHERE (%(before)s::uuid IS NULL OR id < %(before)s::uuid)
        AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s::text[]))
    ORDER BY id DESC
    LIMIT %(window)s::int
) AS seen
WHERE (%(job_types)s::text[] IS NULL OR job_type = ANY (%(job_types)s::text[]))
    AND (%(least_priority)s::int IS NULL OR priority >= %(least_priority)s::int)
    AND (%(most_priority)s::int IS NULL OR priority <= %(most_priority)s::int)
    AND (%(since)s::timestamptz IS NULL OR created_at >= %(since)s::timestamptz)
    AND (%(until)s::timestamptz IS NULL OR created_at < %(until)s::timestamptz)
    AND (NOT %(stalled)s::boolean OR stalls_at < howdah.clock())
    AND (%(data)s::jsonb IS NULL OR data @> %(data)s::jsonb)
LIMIT %(limit)s::int
