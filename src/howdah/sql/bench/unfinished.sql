-- Whether any job has not ended. From the end of the index, where the last ones are: the rest of it is full of what
-- has just left.
SELECT EXISTS (SELECT FROM (SELECT FROM howdah.live AS j ORDER BY j.id DESC LIMIT 1) AS last) AS unfinished
