-- Whether the job has left the live table: for the archive, or for good.
SELECT %(id)s::uuid AS id WHERE NOT EXISTS (SELECT FROM howdah.live AS j WHERE j.id = %(id)s)
