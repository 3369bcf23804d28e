SELECT *, (SELECT NOT has_table_privilege('howdah.live'::regclass, 'SELECT')) AS is_redacted
FROM howdah.event_details
WHERE job_id = %(id)s AND seq > %(after)s::int AND (%(kinds)s::text[] IS NULL OR kind = ANY (%(kinds)s::text[]))
ORDER BY seq LIMIT %(limit)s::int
