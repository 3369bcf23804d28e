-- The archive is searched only once the job has left the live table.
SELECT a.id FROM howdah.archive AS a
WHERE a.id = %(id)s AND NOT EXISTS (SELECT FROM howdah.live AS j WHERE j.id = %(id)s)
