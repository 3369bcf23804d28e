-- The types that a worker has declared, or an operator has set something for.
SELECT t.job_type FROM howdah.types AS t
