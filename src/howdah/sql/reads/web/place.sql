-- The node of its workflow that a job counts in, and its place among the jobs of that. A spawned job has a negative place.
SELECT node, place FROM howdah.job_details WHERE id OPERATOR(pg_catalog.=) %(id)s::pg_catalog.uuid
