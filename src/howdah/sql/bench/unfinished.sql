-- Whether any job has not ended. From the end of the index, because its beginning is full of dead rows.
SELECT EXISTS (SELECT FROM (SELECT FROM howdah.live AS j ORDER BY j.id DESC LIMIT 1) AS last) AS unfinished
