-- The last job of the window that list.sql looked through; none if the window reached the end.
SELECT id FROM howdah.job_details
WHERE (%(before)s::uuid IS NULL OR id < %(before)s::uuid)
    AND (%(statuses)s::text[] IS NULL OR status = ANY (%(statuses)s::text[]))
ORDER BY id DESC
OFFSET %(window)s::int - 1 LIMIT 1
